"""Recipes of ``pretrained/``: corpora, training loops, measures, model cards.

May import everything except the app and the command line.
"""
