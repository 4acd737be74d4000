"""What every layout needs: the Model, the words of a config, names and weights put in place.

May import files, model, preprocessing and core.
"""
