"""Agents of edge clusters learn together by proximal policy optimisation."""
