"""Named sets of instances with best known values, and a planner measured on them."""
