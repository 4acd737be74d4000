"""Layouts: one module per code base, which recognises its checkpoints and opens them.

May import hugging_face, common, files, model, preprocessing and core.
"""
