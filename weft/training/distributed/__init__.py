"""Training spread over processes or a cluster: roles that know nothing of what carries their calls, and what does."""
