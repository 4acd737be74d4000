"""From a sentence or a picture to token ids and labels, and back.

May import core and i18n.
"""
