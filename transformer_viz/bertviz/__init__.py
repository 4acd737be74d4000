"""BertViz's three views by their own names and arguments, drawn with our pictures.

May import everything but the app and the command line; a model is run for the neuron view alone.
Signatures are those of bertviz 1.4.1 (Vig 2019, https://github.com/jessevig/bertviz).
"""
