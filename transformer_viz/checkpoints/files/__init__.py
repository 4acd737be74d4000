"""Weights and their tables of contents read with suspicion: zips, pickles, safetensors, JSON.

May import core and i18n; nothing here knows a layout.
"""
