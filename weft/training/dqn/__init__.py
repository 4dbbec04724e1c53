"""Dispatchers learn what every choice is worth: deep Q-learning."""
