"""The event kernel for any jobs: every task is dispatched on its own, with links, capacities and noise."""
