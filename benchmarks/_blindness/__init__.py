"""Changing what is yet to come, and which earlier decisions differ; single tasks are in ``weft.testing``."""

from weft.testing.blindness import Compared as Compared
