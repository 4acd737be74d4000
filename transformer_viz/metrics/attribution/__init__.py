"""Attribution of outputs to input tokens: rollout, flow, contributions, gradients, deletion.

Input are plain arrays of one run, output are ``[query, key]`` shares. May import nothing but numpy
and pandas.
"""
