"""Small pieces of HTML with all texts escaped.

May import metrics, core and i18n.
"""
