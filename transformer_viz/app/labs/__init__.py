"""What the labs share: a lab's type, its page, its jobs, the tiny models.

May import cards and everything below them.
"""
