"""Folders of the transformers library, and models of it in memory.

May import common, files, preprocessing and core.
"""
