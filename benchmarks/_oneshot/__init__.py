"""The results page of the one-shot planner: what is measured, how it is kept, one module per family of tables."""
