"""Measure the bundled models: the tables and pages that are written of them."""
