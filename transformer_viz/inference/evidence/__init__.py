"""Evidence about heads: models run over sentences, and what their heads do is counted.

May import inference, metrics/heads and what stands below them.
"""
