"""Weights of a rule tuned by an evolution strategy."""
