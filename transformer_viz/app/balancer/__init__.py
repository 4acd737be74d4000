"""Several processes of the app behind one port: ``transformer-viz app --workers N``.

A small process in front hands each visitor to one of them and keeps them running. It imports
neither Streamlit nor torch.
"""
