"""One file a code base: how its checkpoints are told, and what they become.

May import hugging_face, common, files, model, preprocessing and core.
"""
