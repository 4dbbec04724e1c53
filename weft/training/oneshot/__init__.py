"""One-shot planners learn from the schedules they draw."""
