"""The drafter alone: its weights by canonical name, and its forward, teacher forced over a sequence or step by step with a KV cache.

``names`` and ``shapes`` need no torch; everything else does.
"""
