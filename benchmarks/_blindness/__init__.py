"""Changing what is yet to come, and which earlier decisions differ."""

from benchmarks._blindness.compared import Compared as Compared
