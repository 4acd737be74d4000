"""The strip of a lesson's station over every page, and the way between stations.

May import shell and everything below it.
"""
