"""How decoders read on: which may keep keys and values of what they have read.

May import models and the ground floor; nothing else of inference.
"""
