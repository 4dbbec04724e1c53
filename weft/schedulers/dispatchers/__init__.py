"""Dispatchers: decide while the work runs."""
