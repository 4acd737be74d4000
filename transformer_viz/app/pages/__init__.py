"""One function a page; they only put cards together.

May import everything else of the app.
"""
