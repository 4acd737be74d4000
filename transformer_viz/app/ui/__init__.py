"""Streamlit dressed for us: components, progress with a stop button, escaped text.

May import the engine; knows nothing of a visit.
"""
