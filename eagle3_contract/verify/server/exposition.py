"""The text that /metrics answers with (Prometheus exposition format 0.0.4): the lines of one engine, and nothing that is no counter."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Final

from eagle3_contract.verify.engine_runs.definitions import MetricSample
from eagle3_contract.verify.server.rules import rejected

_LINE: Final = re.compile(r"(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(?P<labels>.*)\})?[ \t]+(?P<value>[^ \t]+)(?:[ \t]+-?\d+)?[ \t]*")
_LABEL: Final = re.compile(r'[ \t]*([a-zA-Z_][a-zA-Z0-9_]*)[ \t]*=[ \t]*"((?:[^"\\]|\\.)*)"[ \t]*(?:,|$)')
_ESCAPE: Final = re.compile(r"\\(.)")
_ESCAPED: Final = {"n": "\n", "\\": "\\", '"': '"'}
EXACT: Final = 2**53
"""From here on a counter, which is a double, no longer counts one by one."""


def parse_metrics(text: str, prefix: str, *, what: str) -> list[MetricSample]:
    """The samples whose names begin with ``prefix``, in the order of the page. Other lines are not looked at.

    Raises:
        InputRejected: ``server.answer`` if one of them cannot be read, or stands there twice.
    """
    found: list[MetricSample] = []
    seen: set[tuple[str, frozenset[tuple[str, str]]]] = set()
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.startswith(prefix):
            continue
        sample = _sample(line.rstrip("\r"))
        if sample is None:
            raise rejected("server.answer", f"{what}: line {number} is no sample of a metric")
        key = (sample[0], frozenset(sample[1].items()))
        if key in seen:
            raise rejected("server.answer", f"{what}: line {number} gives a series a second time")
        seen.add(key)
        found.append(sample)
    return found


def _sample(line: str) -> MetricSample | None:
    match = _LINE.fullmatch(line)
    if match is None:
        return None
    labels = _labels(match["labels"] or "")
    try:
        value = float(match["value"])
    except ValueError:
        return None
    return None if labels is None else (match["name"], labels, value)


def _labels(text: str) -> dict[str, str] | None:
    found: dict[str, str] = {}
    at = 0
    while at < len(text):
        match = _LABEL.match(text, at)
        if match is None or match[1] in found:
            return None
        found[match[1]] = _ESCAPE.sub(lambda m: _ESCAPED.get(m[1], m[0]), match[2])
        at = match.end()
    return found


def total(samples: Iterable[MetricSample], name: str, labels: Mapping[str, str] | None = None) -> int | None:
    """A counter added up over all its series, None if it has none.

    Args:
        samples: the page.
        name: of the counter.
        labels: only series with these labels.

    Raises:
        InputRejected: ``server.counters`` if a value is no count: not finite, negative, no whole number, or too large to count by ones.
    """
    values = [v for n, found, v in samples if n == name and all(found.get(k) == w for k, w in (labels or {}).items())]
    for value in values:
        if not math.isfinite(value) or value < 0 or value != int(value) or value > EXACT:
            raise rejected("server.counters", f"the counter {name} has the value {value}, which counts nothing")
    return sum(map(int, values)) if values else None
