"""What each head does, with how many rows said so: M1 to M16, chance, intervals, roles.

May import metrics' own helpers and core; arrays and masks in, sums and counts out.
"""
