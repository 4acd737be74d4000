"""Notebook widget: the app's canvas components, with the model in the notebook's kernel.

Only `explorer.py` uses anywidget, and only `tv.explore` imports it; all else is plain Python.
"""
