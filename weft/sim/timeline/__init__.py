"""Planning kernels: timelines of devices, list planners, decoders, drawing and searching schedules."""
