"""What learners of policies that point at candidates share, whatever the algorithm: recipe, environments, card, judges."""
