"""Training text of a translator, generated for every pass: swaps, joins, agreement."""
