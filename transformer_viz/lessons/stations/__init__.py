"""The ten stations, one file each, in the order of the lesson.

May import lessons, metrics and core.
"""
