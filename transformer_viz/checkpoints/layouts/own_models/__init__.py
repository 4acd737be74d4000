"""Layouts of models that people write themselves, and the parts that these have in common.

May import layouts, common, files, model, preprocessing and core.
"""
