"""Processes that may do little: for work on what strangers bring. Standard library only."""
