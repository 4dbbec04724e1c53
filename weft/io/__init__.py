"""Files in and out: graphs, clusters, problems and schedules. Below it are ``model`` and ``errors`` only."""
