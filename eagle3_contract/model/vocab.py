"""The vocab map: which target token a draft id stands for.

``offset``: target = i + d2t[i] (speculators, SpecForge, EAGLE, ModelOpt, vLLM 0.32.0 llama_eagle3.py:385-386, SGLang 0.5.23
llama_eagle3.py:350-353). ``absolute``: target = d2t[i]. ``identity``: no map, draft ids are target ids.
"""

from __future__ import annotations

from enum import StrEnum


class VocabMap(StrEnum):
    OFFSET = "offset"
    ABSOLUTE = "absolute"
    IDENTITY = "identity"
