"""How the forward of a module of one's own is called: roles of its inputs, shown by trial runs.

May import capture, common, files and core.
"""
