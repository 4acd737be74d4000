"""A widget for notebooks: the app's canvas components, with the model in the notebook's kernel.

Only `explorer.py` knows anywidget, and only `tv.explore` imports it; all else is plain Python.
"""
