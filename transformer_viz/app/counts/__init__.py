"""What a server counts for whoever runs it: numbers only, never a word that a visitor typed.

Stands below all rooms of the app and knows none of them.
"""
