"""Makes the embedded demo pair from nothing: text, tokenizer, target, two EAGLE-3 drafters, held-out samples.

`python -m tools.demo_pair --out DIR` runs all of it. Words: boundary n is the residual stream that enters layer n of the target
(0 = output of the embedding, 12 = output of the last layer, before the final norm); a recipe is the ordered list of boundaries that
reach fc.
"""

import os

# Before torch or tokenizers are imported anywhere: their own thread pools would make sums depend on the machine's load.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
