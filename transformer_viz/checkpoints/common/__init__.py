"""Code shared by all layouts: the Model, config options, weight names, weight loading.

May import files, model, preprocessing and core.
"""
