"""Scheduling of runs: slots taken in turns, frame priority, and shared passes."""
