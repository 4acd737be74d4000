"""Searches that share their passes."""
