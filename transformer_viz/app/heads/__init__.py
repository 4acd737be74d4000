"""Parts of the page Heads: sentences, jobs, the table, the ranking by removal.

May import the same folders as pages, but no page.
"""
