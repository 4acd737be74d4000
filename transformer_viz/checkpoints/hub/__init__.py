"""Models of the Hugging Face Hub: an id becomes a folder on this disk, opened like any other.

Nothing here opens weights.
"""
