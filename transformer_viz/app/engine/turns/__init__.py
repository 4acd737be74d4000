"""Whose run computes next: places for a few at a time, taken by turns, and shared passes."""
