"""The app under strain: what takes longer than a test may."""
