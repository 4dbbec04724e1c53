"""Sweeps: schedulers on the same problems with the same seeds, row by row, and what follows from the rows."""
