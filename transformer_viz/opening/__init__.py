"""Checkpoints that strangers bring, opened in a process of their own."""

from .apart import open_apart as open_apart
