"""Counters of a server for its operator: numbers only, never text typed by a user.

The lowest layer of the app; imports nothing else of it.
"""
