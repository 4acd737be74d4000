"""Measurements of the bundled models: tables and pages."""
