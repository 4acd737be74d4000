"""Several app processes behind one port: ``transformer-viz app --workers N``.

A small balancer process routes each user to one of them and restarts them. It imports neither
Streamlit nor torch.
"""
