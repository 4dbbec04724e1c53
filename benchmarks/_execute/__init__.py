"""Real runs on unequal workers: the graphs, the work, the clusters, and one run of each kind."""
