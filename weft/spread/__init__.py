"""Work that is spread over Ray or Dask: what training and evaluation need of a cluster."""
