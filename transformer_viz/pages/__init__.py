"""The screens: thin compositions of views and controls. Streamlit lives here and nowhere below."""
