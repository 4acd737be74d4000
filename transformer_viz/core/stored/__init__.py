"""How parts of a trace lie in a file, and what may stand in them when they are read."""
