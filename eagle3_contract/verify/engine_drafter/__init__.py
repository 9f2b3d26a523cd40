"""The engine's drafter against our forward on the same captured inputs: every row of every forward, tensor by tensor.

``checks`` (module ``run``) is the way in. ``rules`` needs no torch; everything else does.
"""
