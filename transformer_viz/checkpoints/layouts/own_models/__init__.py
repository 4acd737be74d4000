"""Layouts of models that users write themselves, and their shared parts.

May import layouts, common, files, model, preprocessing and core.
"""
