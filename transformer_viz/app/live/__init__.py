"""Frames while a slider is dragged, over a separate route beside Streamlit's.

May import render, session, ui and engine.
"""
