"""The policy for any conditional graph and cluster: a graph net over kinds and devices."""
