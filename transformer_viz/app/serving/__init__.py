"""What makes Streamlit's server serve a class: ASGI middleware, and how its messages travel.

May import session, ui and engine.
"""
