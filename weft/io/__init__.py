"""Files in and out: graphs, clusters, problems and schedules. Imports ``model`` and ``errors`` only."""
