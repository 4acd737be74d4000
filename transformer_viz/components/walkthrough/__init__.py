"""Data of the page Step inside: stations, panels, symbols, texts.

May import components, metrics and core.
"""
