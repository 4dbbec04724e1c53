"""Measurements behind the published figures; ``python -m benchmarks`` lists them."""
