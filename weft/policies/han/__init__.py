"""A net for edge clusters: graph attention, a pointer to a waiting task, and units of every resource for it."""
