"""Figures for print, drawn by matplotlib.

May import views, metrics and core.
"""
