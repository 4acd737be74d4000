"""The strip of a lesson's station above each page, and the navigation between stations.

May import shell and everything below it.
"""
