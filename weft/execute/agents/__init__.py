"""Edge clusters live: an agent per cluster and a coordinator with replicas, each its own process."""
