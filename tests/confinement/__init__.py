"""Processes that may do little, on this machine."""
