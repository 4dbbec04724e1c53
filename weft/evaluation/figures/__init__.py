"""Pictures: sweeps, streams, learning curves, Gantt charts. The home of matplotlib."""
