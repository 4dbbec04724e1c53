"""Planners: a whole schedule before anything runs."""
