"""Learned decisions: nets to train (torch), the same nets to decide with (NumPy), and their files."""
