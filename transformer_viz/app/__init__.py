"""The app: thin compositions of views and controls. Only this package uses Streamlit.

Its layers from the bottom: engine, ui, session, render and shell, lessons and live, cards and the
page template, labs and checkpoint, pages. A layer imports only from layers below.
"""
