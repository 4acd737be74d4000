"""The ten stations, one file each, in the order of the hour.

May import lessons, metrics and core.
"""
