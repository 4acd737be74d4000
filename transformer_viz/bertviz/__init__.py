"""BertViz's three views with their own names and arguments, drawn with our components.

May import everything but the app and the command line. Only the neuron view runs a model.
Signatures are those of bertviz 1.4.1 (Vig 2019, https://github.com/jessevig/bertviz).
"""
