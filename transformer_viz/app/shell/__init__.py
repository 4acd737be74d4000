"""Frame of every page: sentence, model, share, presenter.

May import render, session, ui and engine.
"""
