"""State of a session: link, choices, edits, undo, and the scene built from them.

May import ui and engine.
"""
