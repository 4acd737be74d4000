"""The app: thin compositions of views and controls. Streamlit lives here and nowhere below.

Its rooms from the ground up: engine, ui, session, render and shell, lessons and live, cards and the
page's template, labs and checkpoint, pages. A room imports only from rooms below its own.
"""
