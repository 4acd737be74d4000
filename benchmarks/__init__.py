"""Measurements behind the budgets: `make bench` runs them and writes RESULTS.md."""
