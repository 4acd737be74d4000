"""Pictures of what was measured by changing runs, not of one run alone.

May import what `views/charts` may, and `views/charts`.
"""
