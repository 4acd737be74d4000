"""Small experiments on a model: measurements of the labs that need more than one captured run.

May import inference and everything below it.
"""
