"""From a scene to HTML or bytes for a component. No Streamlit.

May import session and engine.
"""
