"""Safe readers of untrusted weights files: zips, pickles, safetensors, JSON.

May import core and i18n; nothing here depends on a layout.
"""
