"""What schedules look like and how good they are."""
