"""Frames while a slider is dragged, over a route of their own beside Streamlit's.

May import render, session, ui and engine.
"""
