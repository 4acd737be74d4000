"""What each input word had to do with an output: rollout, flow, contributions, gradients, deletion.

Plain arrays of one run go in, ``[query, key]`` shares come out. May import nothing but numpy and
pandas.
"""
