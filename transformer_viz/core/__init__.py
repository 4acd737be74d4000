"""The words of the whole project: sites, edits, traces and their file; no torch, no pages.

May import i18n and nothing else of the package.
"""
