"""Which weight is which in a file of no known layout: a proposal for a person to confirm.

May import layouts, common, files and model.
"""
