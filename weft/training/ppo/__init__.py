"""Dispatchers learn by proximal policy optimisation."""
