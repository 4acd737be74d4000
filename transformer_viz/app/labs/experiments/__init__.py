"""The labs, one file each: data and three pure functions.

May import labs and everything below them.
"""
