"""Lets the SGLang of the package index run on a CPU, in every process it starts: put this folder and ``sglang_kernels`` on PYTHONPATH.

Python imports ``sitecustomize`` by itself at its start. What SGLang needs is made ready when it is imported, not before, so that other
programs that inherit the variable pay nothing. Nothing of SGLang is changed.
"""

import sys
from importlib.abc import MetaPathFinder

SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)


class Prepare(MetaPathFinder):
    """Finds no module; the first search for ``sglang`` prepares torch for it."""

    def find_spec(self, fullname, path=None, target=None):
        if fullname == "sglang":
            sys.meta_path.remove(self)
            prepare()
        return None


def prepare():
    import torch

    # torchvision as published is built for CUDA and its operators do not load beside a CPU torch: it only needs to find their schemas.
    for schema in SCHEMAS:
        torch.library.define("torchvision::" + schema.split("(")[0], schema[schema.index("(") :])
    if not torch.cuda.is_available():
        torch.cuda.synchronize = lambda *_, **__: None  # called unguarded by deepseek_v2 and kimi_k25_eagle3 (SGLang 0.5.23)


sys.meta_path.insert(0, Prepare())
