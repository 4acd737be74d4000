"""Small models with random weights, by package."""
