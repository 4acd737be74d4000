"""Changes of Streamlit's server for many users: ASGI middleware and message transport.

May import session, ui and engine.
"""
