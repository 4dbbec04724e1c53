"""The event kernel for streams of one job: a queue per kind of task, devices that take batches."""
