"""Parts of ``python -m benchmarks distributed``."""
