"""Allocators: each cluster's agent picks a pending task and the units it is given; rules and others' code."""
