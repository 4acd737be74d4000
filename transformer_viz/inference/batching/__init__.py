"""Searches of several people for one model, whose passes are made together.

The ids are those of :func:`generation.translate`, the numbers equal to 1e-5.
"""
