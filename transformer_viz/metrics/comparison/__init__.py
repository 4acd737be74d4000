"""Two runs side by side: divergence of heads on the words that both read, and matched heads.

May import metrics' attention, head measures and statistics, and core.
"""
