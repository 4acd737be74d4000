"""Figures for print, drawn with matplotlib.

May import views, metrics and core.
"""
