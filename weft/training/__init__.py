"""Learning schedulers: one algorithm per file, and the run folder they share."""
