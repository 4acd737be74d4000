"""Core data types: sites, edits, traces and their file format, without torch or pages.

May import i18n and nothing else of the package.
"""
