"""The one-shot planner: an encoder scores all tasks, schedules are drawn from the scores."""
