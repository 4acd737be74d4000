"""How sure a measured number is: bootstrap over sentences, rank intervals, Holm's correction.

May import numpy alone.
"""
