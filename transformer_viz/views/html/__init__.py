"""Small pieces of HTML, every word of them escaped.

May import metrics, core and i18n.
"""
