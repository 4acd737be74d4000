"""Models of the Hugging Face Hub: an id becomes a folder on this disk, which is opened like any.

Nothing here opens weights; what comes down is read by the rooms beside this one, as a path is.
"""
