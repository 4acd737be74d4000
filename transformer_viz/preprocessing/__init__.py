"""Conversion of text, images and sounds to model inputs with labels, and of ids back to text.

May import core and i18n.
"""
