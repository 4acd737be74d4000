"""Models of the Hugging Face Hub, downloaded to a local folder that is opened like any other.

Nothing here opens weights.
"""
