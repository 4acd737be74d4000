"""How well the probe holds on code that its author did not write, told from outside."""
