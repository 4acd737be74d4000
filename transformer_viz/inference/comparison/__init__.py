"""What two models, two sentences or two interventions make of text, compared head by head.

May import inference, checkpoints, metrics and core. `sides.py` is `tv.compare`.
"""
