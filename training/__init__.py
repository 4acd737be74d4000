"""The recipes behind ``pretrained/``: corpora, loops, measures, cards.

May import everything but the app and the command line.
"""
