"""Progress of tasks with many passes; imports the proof and lower levels."""
