"""The widget for notebooks."""
