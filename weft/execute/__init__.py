"""Carrying tasks out: engines that run them, one loop that drives a session on any engine, runs on disk.

May import sessions and everything below them; nothing here loads torch, and Dask and Ray only where they are asked for.
"""
