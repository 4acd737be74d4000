"""Plotly figures: one file each, whose first line is the question that it answers.

May import metrics, core and i18n.
"""
