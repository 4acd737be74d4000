"""Progress of work that takes many passes; imports the proof and what stands below."""
