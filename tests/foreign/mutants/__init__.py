"""Faults in the probe, each one line, and who sees them: the report, and the other tests."""
