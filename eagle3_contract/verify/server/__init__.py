"""``contract verify --server URL``: a running vLLM or SGLang server, seen from outside, against what the contract promises.

``run`` is the entry. ``address``, ``stream`` and ``client`` speak HTTP within limits; ``recognise`` says which engine answers, ``vllm`` and
``sglang`` know its endpoints; ``traffic`` tells whose tokens the counters counted; ``identity`` and ``judge`` hold what is shown and what
was counted against the contract, ``reading`` the engine's reading of the drafter, ``predict`` the training path. Only ``predict`` and
samples need torch.
"""
