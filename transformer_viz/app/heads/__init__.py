"""What the page Heads is put together from: sentences, jobs, the table, what a removal costs.

May import what pages may, but no page.
"""
