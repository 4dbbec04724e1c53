"""The planner that proves: CP-SAT over whole ticks."""
