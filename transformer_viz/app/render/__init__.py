"""Conversion of a scene to HTML, or to bytes for a component. No Streamlit.

May import session and engine.
"""
