"""Several processes of the app behind one port: ``transformer-viz app --workers N``.

Caddy listens on the port and keeps each visit on one worker. A small process starts Caddy and the
workers, restarts a worker that ended, and answers for all of them. It imports neither Streamlit nor
torch.
"""
