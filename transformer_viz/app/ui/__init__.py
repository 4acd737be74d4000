"""Streamlit helpers: components, progress with a stop button, escaped text.

May import the engine; independent of the session.
"""
