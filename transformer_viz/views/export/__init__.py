"""Exports: the report, its data, atlas and lines for a notebook, file formats.

May import views, components, metrics and core.
"""
