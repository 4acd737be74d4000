"""Small experiments on a model: what the labs measure that no single watched run tells.

May import inference and everything below it.
"""
