"""Computation for all users: models, cache, run slots, jobs. No Streamlit.

May import everything below the app, but nothing else of the app.
"""
