"""Restricted processes for work on untrusted files. Standard library only."""
