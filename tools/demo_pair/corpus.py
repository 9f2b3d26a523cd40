"""Text and tokenizer: the docstrings of CPython's standard library and its pydoc topics, under the PSF License Version 2.

A module whose source carries terms of its own is left out, docstrings included, as is everything that depends on where or by whom
the interpreter was built.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import importlib
import inspect
import json
import pydoc_data.topics
import random
import sysconfig
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from tools.demo_pair.settings import BOS_ID, EOS_ID, MAX_POSITIONS, SCALES, SEEDS, VOCAB_SIZE, Scale

# Terms other than the PSF's, as they are worded in the sources that carry them.
OTHER_TERMS: Final = (
    "permission is hereby granted",
    "permission to use, copy",
    "redistribution and use in source",
    "secret labs",
    "public domain",
    "licensed under the",
    "software is provided 'as-is'",
    "without warranty",
)
# Named under "Licenses and Acknowledgements for Incorporated Software" in CPython's documentation, or with terms of their own.
OTHER_TERMS_MODULES: Final = (
    "asynchat",
    "asyncio",
    "asyncore",
    "http.cookies",
    "trace",
    "turtle",
    "uu",
    "xmlrpc",
    "lib2to3",
    "ctypes.macholib",
)
LOCAL_DIRECTORIES: Final = frozenset(
    {"site-packages", "dist-packages", "test", "tests", "idle_test", "turtledemo", "pydoc_data", "ensurepip"}
)
# Written in C: docstrings that no source file in the library shows. They are CPython's own also where the module wraps other software.
C_MODULES: Final = (
    "builtins", "_bisect", "_bz2", "_codecs", "_collections", "_contextvars", "_csv", "_decimal", "_functools", "_hashlib",
    "_heapq", "_io", "_json", "_lzma", "_operator", "_pickle", "_queue", "_random", "_socket", "_ssl", "_stat", "_statistics",
    "_struct", "_thread", "_tracemalloc", "_warnings", "_weakref", "_zoneinfo", "array", "atexit", "binascii", "cmath",
    "datetime", "errno", "faulthandler", "fcntl", "gc", "grp", "itertools", "marshal", "math", "mmap", "posix", "pwd", "resource",
    "select", "signal", "sys", "syslog", "termios", "time", "types", "unicodedata", "weakref", "zlib",
)  # fmt: skip
SHORTEST_DOCSTRING: Final = 30
HELD_OUT_SHARE: Final = 20


def _has_other_terms(module: str, source: str) -> bool:
    if any(module == name or module.startswith(name + ".") for name in OTHER_TERMS_MODULES):
        return True
    lowered = source.lower()
    return any(phrase in lowered for phrase in OTHER_TERMS)


def _heading(module: str, node: ast.AST) -> str:
    if isinstance(node, ast.ClassDef):
        return f"class {node.name}"
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return f"def {node.name}({ast.unparse(node.args)})"
    return f"module {module}"


def _python_docstrings(library: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(library.rglob("*.py")):
        parts = path.relative_to(library).with_suffix("").parts
        if LOCAL_DIRECTORIES.intersection(parts) or parts[0].startswith(("_sysconfigdata", "config-", "sitecustomize")):
            continue
        module = ".".join(parts).removesuffix(".__init__")
        source = path.read_text(encoding="utf-8")
        if _has_other_terms(module, source):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node)
                if text:
                    yield _heading(module, node), text


def _c_docstrings() -> Iterator[tuple[str, str]]:
    for module in C_MODULES:
        for name, member in sorted(vars(importlib.import_module(module)).items()):
            found = [(name, member)]
            if inspect.isclass(member):
                found += [(f"{name}.{inner}", value) for inner, value in sorted(vars(member).items())]
            for label, value in found:
                text = getattr(value, "__doc__", None)
                if isinstance(text, str) and callable(value) and getattr(value, "__module__", module) in (module, None, "builtins"):
                    yield f"def {label}", inspect.cleandoc(text)


def documents() -> list[str]:
    """Every document once, in a fixed order: topics, then Python sources by path, then modules written in C."""
    found = [text for _, text in sorted(pydoc_data.topics.topics.items())]
    seen: set[str] = set()
    library = Path(sysconfig.get_path("stdlib"))
    for heading, text in [*_python_docstrings(library), *_c_docstrings()]:
        if len(text) >= SHORTEST_DOCSTRING and text not in seen:
            seen.add(text)
            found.append(f"{heading}\n\n{text}\n")
    return found


def train_tokenizer(texts: list[str]) -> Tokenizer:
    """A byte-level BPE of VOCAB_SIZE entries whose template puts <s> first."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE,
        special_tokens=["<s>", "</s>"],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", BOS_ID)])
    return tokenizer


def save_tokenizer(tokenizer: Tokenizer, folder: Path) -> None:
    """tokenizer.json, and beside it the class name that every release of transformers knows."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "add_prefix_space": False,
        "bos_token": "<s>",
        "clean_up_tokenization_spaces": False,
        "eos_token": "</s>",
        "model_max_length": MAX_POSITIONS,
        "tokenizer_class": "PreTrainedTokenizerFast",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def build(out: Path, scale: Scale) -> None:
    """Writes `corpus.json` (token ids of the training and the held-out documents, and a digest of the text) and `tokenizer/`."""
    texts = documents()
    random.Random(SEEDS["split"]).shuffle(texts)
    texts = texts[: scale.documents]
    held_out = len(texts) // HELD_OUT_SHARE
    tokenizer = train_tokenizer(texts[held_out:])
    save_tokenizer(tokenizer, out / "tokenizer")
    ids = [[*encoding.ids, EOS_ID] for encoding in tokenizer.encode_batch(texts)]
    digest = hashlib.sha256("\0".join(texts).encode("utf-8")).hexdigest()
    corpus = {"sha256": digest, "documents": len(texts), "held_out_documents": held_out, "characters": sum(map(len, texts))}
    corpus["training_tokens"] = sum(map(len, ids[held_out:]))
    corpus["held_out_tokens"] = sum(map(len, ids[:held_out]))
    record = {"corpus": corpus, "held_out": ids[:held_out], "training": ids[held_out:]}
    (out / "corpus.json").write_text(json.dumps(record), encoding="utf-8")


def main() -> None:
    """Command line of this step alone."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--scale", choices=sorted(SCALES), default="full")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    build(arguments.out, SCALES[arguments.scale])


if __name__ == "__main__":
    main()
