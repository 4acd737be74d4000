"""What Step inside sends to the browser: stations, panels, symbols, texts.

May import components, metrics and core.
"""
