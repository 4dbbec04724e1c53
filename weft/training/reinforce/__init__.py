"""Policy gradient for nets that pick the next task."""
