"""What is done at each torch call that the probe sees: one file a kind of call.

May import capture, model and core.
"""
