"""Policies of the task view: they point at one of a list of candidates."""
