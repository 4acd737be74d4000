"""Statements about traces of given weights, which were not captured."""
