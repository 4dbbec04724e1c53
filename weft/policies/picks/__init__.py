"""Policies that pick the next task of any job; DEFT places it."""
