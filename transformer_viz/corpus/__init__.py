"""Corpus atlas: the plan, its parts as files, their merge, the engines, and the reader.

May import inference's corpus, metrics and core, pyarrow, and ray on request.
"""
