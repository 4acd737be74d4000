"""What computes for all visitors: models, cache, places for runs, jobs. No Streamlit.

May import everything below the app, and nothing of the app but itself.
"""
