"""Shared code of the labs: the type of a lab, its page, its jobs, the tiny models.

May import cards and everything below them.
"""
