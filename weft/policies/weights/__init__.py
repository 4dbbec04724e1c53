"""Policies that are the weights of a rule of the task view."""
