"""Roles of weights in a file of unknown layout, proposed for confirmation by the user.

May import layouts, common, files and model.
"""
