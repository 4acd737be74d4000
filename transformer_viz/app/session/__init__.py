"""One visitor's state: the link, choices, edits, undo, and the scene they make.

May import ui and engine.
"""
