"""The text a translator learns from, made anew for every pass: swaps, joins, agreement."""
