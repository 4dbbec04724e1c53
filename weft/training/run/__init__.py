"""A training run on disk, whatever the algorithm: folder, checkpoints, metrics, several seeds."""
