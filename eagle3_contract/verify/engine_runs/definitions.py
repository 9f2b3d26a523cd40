"""One definition of acceptance, and how every engine's own figures convert into it. No torch.

**The definition**: tokens per verify step = (accepted drafts + one bonus token) / verify steps, pooled over requests; the token that the
prefill samples belongs to no verify step and is not counted. With n verify steps of which all accepted drafts are a:
``length = 1 + a / n``. Only steps that verified drafts count. docs/acceptance.md has the formulas with their sources.

=======================================  ==================================================  =========================================
figure of an engine                      what it is                                          conversion
=======================================  ==================================================  =========================================
vLLM 0.32.0 ``vllm:spec_decode_*``       drafts = verify steps with drafts, accepted          ``from_vllm``: exact, as verified (the
(v1/spec_decode/metrics.py)              drafts; as verified, before max_tokens cuts          last step whole)
SGLang 0.5.23 ``meta_info``              verify steps and right drafts of one request         ``from_sglang_meta``: exact, as verified
(managers/tokenizer_manager.py:3138)
its ``spec_accept_length``               completion_tokens / verify steps: the prefill's      ``without_prefill``: minus 1 / steps
                                         token is counted
``sglang:generation_tokens_total`` ...   tokens, requests and verify steps of finished        ``from_sglang_totals``: exact, but for the
(observability/metrics_collector.py)     requests                                             tail that max_new_tokens cuts
``/server_info`` and the gauge           accepted tokens / verify steps; bonus counted, the   already in it; ``average_between`` for two
``sglang:spec_accept_length``            prefill's token not; of whole log windows only       readings, where the steps are known
=======================================  ==================================================  =========================================
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias, TypeGuard

from contract.errors import InputRejected
from contract.findings import Json

DEFINITION: Final = "tokens per verify step, pooled over requests; the bonus token counted, the prefill's token not"

MetricSample: TypeAlias = tuple[str, Mapping[str, str], float]
"""One line of a Prometheus page: name, labels, value."""

VLLM_DRAFTS: Final = "vllm:spec_decode_num_drafts"
VLLM_DRAFT_TOKENS: Final = "vllm:spec_decode_num_draft_tokens"
VLLM_ACCEPTED: Final = "vllm:spec_decode_num_accepted_tokens"
VLLM_PER_POSITION: Final = "vllm:spec_decode_num_accepted_tokens_per_pos"
SGLANG_GENERATED: Final = "sglang:generation_tokens_total"
SGLANG_REQUESTS: Final = "sglang:num_requests_total"
SGLANG_VERIFY_CALLS: Final = "sglang:spec_verify_calls_total"
TOTAL: Final = "_total"
"""The suffix that Prometheus adds to a counter's name; vLLM's ``llm.get_metrics()`` has the names without it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Verify steps and what they accepted, in the one definition; adds up over requests.

    Attributes:
        rounds: verify steps that had drafts to verify.
        accepted: accepted drafts, without the bonus tokens.
        drafted: drafts that were proposed; None where the source does not say.
        per_position: how many steps accepted the draft at position 0, 1, ... (and all before it); None where the source does not say.
        lost: at most so many accepted drafts are missing, because the source counts tokens after max_tokens has cut the last step.
    """

    rounds: int
    accepted: int
    drafted: int | None = None
    per_position: tuple[int, ...] | None = None
    lost: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            rounds=self.rounds + other.rounds,
            accepted=self.accepted + other.accepted,
            drafted=None if self.drafted is None or other.drafted is None else self.drafted + other.drafted,
            per_position=_added(self.per_position, other.per_position),
            lost=self.lost + other.lost,
        )

    @property
    def length(self) -> float:
        """Tokens per verify step, 1 + accepted / rounds; NaN without a step."""
        return 1 + self.accepted / self.rounds if self.rounds else math.nan

    @property
    def longest(self) -> float:
        """The length if every draft that may be missing had been accepted."""
        return replace(self, accepted=self.accepted + self.lost, lost=0).length

    @property
    def rate(self) -> float:
        """Accepted / proposed drafts; NaN where the drafts are not known. Over a tree the proposed ones are its nodes, of which at most
        one a level can be accepted: not to be compared with a chain's."""
        return self.accepted / self.drafted if self.drafted else math.nan

    @property
    def position_rates(self) -> tuple[float, ...] | None:
        """Share of the verify steps that accepted position 0, 1, ...; None where not known."""
        if self.per_position is None or not self.rounds:
            return None
        return tuple(n / self.rounds for n in self.per_position)

    @property
    def contradictions(self) -> tuple[str, ...]:
        """What cannot be, whatever the drafter: counters of different scopes were mixed, or a server was restarted in between."""
        found = []
        if self.rounds < 0 or self.accepted < 0 or (self.drafted or 0) < 0 or min(self.per_position or (0,)) < 0:
            found.append("a count is negative")
        if self.drafted is not None and self.accepted > self.drafted:
            found.append(f"{self.accepted} drafts were accepted and {self.drafted} proposed")
        if self.accepted and not self.rounds:
            found.append(f"{self.accepted} drafts were accepted in no verify step")
        if self.per_position is not None:
            if sum(self.per_position) != self.accepted:
                found.append(f"the positions add up to {sum(self.per_position)} accepted drafts, the counter says {self.accepted}")
            if any(later > earlier for earlier, later in zip((self.rounds, *self.per_position), self.per_position, strict=False)):
                found.append("a later position was accepted more often than an earlier one")
        return tuple(found)

    def as_json(self) -> dict[str, Json]:
        """For the report."""
        rates = self.position_rates
        return {
            "definition": DEFINITION,
            "length": self.length,
            "rounds": self.rounds,
            "accepted": self.accepted,
            "drafted": self.drafted,
            "rate": self.rate if self.drafted else None,
            "per_position": None if rates is None else list(rates),
            "longest": self.longest if self.lost else None,
        }


def from_rounds(accepted: Iterable[int], *, drafted: int | None = None) -> Counts:
    """From the number of accepted drafts of each verify step."""
    each = list(accepted)
    deepest = max(each, default=0)
    positions = tuple(sum(a > i for a in each) for i in range(deepest))
    return Counts(rounds=len(each), accepted=sum(each), drafted=drafted, per_position=positions)


def from_tokens(emitted: int, rounds: int, *, cut: int = 0) -> Counts:
    """From the tokens that ``rounds`` verify steps emitted (the prefill's token not among them). ``cut``: at most so many are missing."""
    return Counts(rounds=rounds, accepted=emitted - rounds, lost=cut)


def from_vllm(drafts: float, draft_tokens: float, accepted: float, per_position: Sequence[float] = ()) -> Counts:
    """From vLLM's four counters, or from the differences of two readings.

    ``drafts`` counts verify steps with at least one draft (v1/core/sched/scheduler.py:2969), each as verified: what max_tokens cuts off
    afterwards is in it (scheduler.py:2112 before :2167). Near max_model_len the drafter is skipped and zeros are verified in its place;
    they are in it too and are hardly ever accepted: keep prompt + max_tokens + drafts below max_model_len where figures are compared.
    """
    positions = tuple(_whole(n) for n in per_position) if per_position else None
    return Counts(rounds=_whole(drafts), accepted=_whole(accepted), drafted=_whole(draft_tokens), per_position=positions)


def from_vllm_metrics(samples: Iterable[MetricSample], *, model: str | None = None) -> Counts | None:
    """From the lines of vLLM's /metrics (or ``llm.get_metrics()`` by name), added up over the label ``engine``.

    Args:
        samples: name, labels, value.
        model: only lines with this ``model_name``.

    Returns:
        The totals since the server started, or None if it shows none (no speculative decoding, or statistics are off).
    """
    found: dict[str, float] = {}
    positions: dict[int, float] = {}
    for name, labels, value in samples:
        if model is not None and labels.get("model_name") != model:
            continue
        plain = name.removesuffix(TOTAL)
        if plain == VLLM_PER_POSITION and labels.get("position", "").isdecimal():
            position = int(labels["position"])
            positions[position] = positions.get(position, 0.0) + value
        elif plain in (VLLM_DRAFTS, VLLM_DRAFT_TOKENS, VLLM_ACCEPTED):
            found[plain] = found.get(plain, 0.0) + value
    if not {VLLM_DRAFTS, VLLM_DRAFT_TOKENS, VLLM_ACCEPTED} <= found.keys():
        return None
    each = [positions.get(i, 0.0) for i in range(max(positions) + 1)] if positions else []
    return from_vllm(found[VLLM_DRAFTS], found[VLLM_DRAFT_TOKENS], found[VLLM_ACCEPTED], each)


def from_sglang_meta(meta: Mapping[str, Json]) -> Counts | None:
    """From ``meta_info`` of one answer of SGLang; None if it has no verify step (or speculation is off).

    ``spec_num_correct_drafts`` and ``spec_verify_ct`` are counted as verified, before max_new_tokens cuts
    (managers/scheduler_components/batch_result_processor.py:832-836). Entry a of ``spec_correct_drafts_histogram`` is the number of steps
    that accepted a drafts. ``spec_num_proposed_drafts`` is steps times (draft tokens - 1): a tree's nodes.
    """
    rounds, right = meta.get("spec_verify_ct"), meta.get("spec_num_correct_drafts")
    if not _is_count(rounds) or not _is_count(right):
        return None
    histogram, proposed = meta.get("spec_correct_drafts_histogram"), meta.get("spec_num_proposed_drafts")
    positions = None
    if isinstance(histogram, list) and all(_is_count(n) for n in histogram):
        positions = tuple(sum(histogram[i + 1 :]) for i in range(len(histogram) - 1))
    return Counts(rounds=rounds, accepted=right, drafted=proposed if _is_count(proposed) else None, per_position=positions)


def without_prefill(accept_length: float, rounds: int) -> float:
    """SGLang's ``spec_accept_length`` of one request in the one definition.

    It is completion_tokens / verify steps, and the first completion token comes from the prefill: too high by 1 / steps. Eight tokens
    without one accepted draft give 8 / 7 = 1.143. Exact unless max_new_tokens cut the last step. NaN without a step.
    """
    return accept_length - 1 / rounds if rounds else math.nan


def from_sglang_totals(generated: float, requests: float, verify_calls: float, *, drafts: int) -> Counts:
    """From the counters of SGLang's /metrics, or from the differences of two readings.

    Each is added to when a request finishes (observability/metrics_collector.py:2092-2136), so that a request counts wholly or not at all
    (one running during a reading counts in the next one). One token a request comes from the prefill. Tokens are counted after
    max_new_tokens has cut: up to ``drafts`` accepted ones a request are missing (``Counts.lost``). With ``--enable-mixed-chunk`` tokens
    come in the prefill of other requests too, that no verify step counts: the figure is too high then.

    Args:
        generated: ``sglang:generation_tokens_total``.
        requests: ``sglang:num_requests_total``.
        verify_calls: ``sglang:spec_verify_calls_total``.
        drafts: how many drafts one verify step can accept at most (``speculative_num_steps``).
    """
    return from_tokens(_whole(generated) - _whole(requests), _whole(verify_calls), cut=drafts * _whole(requests))


def from_sglang_metrics(samples: Iterable[MetricSample], *, drafts: int, model: str | None = None) -> Counts | None:
    """From the lines of SGLang's /metrics (``--enable-metrics``), added up over all other labels; None if a counter is not there.

    A server that has verified nothing yet shows no ``sglang:spec_verify_calls_total``.
    """
    found: dict[str, float] = {}
    for name, labels, value in samples:
        if name in (SGLANG_GENERATED, SGLANG_REQUESTS, SGLANG_VERIFY_CALLS) and (model is None or labels.get("model_name") == model):
            found[name] = found.get(name, 0.0) + value
    if len(found) < 3:
        return None
    return from_sglang_totals(found[SGLANG_GENERATED], found[SGLANG_REQUESTS], found[SGLANG_VERIFY_CALLS], drafts=drafts)


def average_between(before: tuple[float, int] | None, after: tuple[float, int]) -> float:
    """The average over the verify steps between two readings of a running average such as ``avg_spec_accept_length``.

    Args:
        before: average and number of steps it is over; None if there was none yet.
        after: the later reading.

    Returns:
        NaN if no step lies between them. SGLang adds to its totals only when it writes a decode log line (``decode_log_interval``, 40
        steps; metrics_reporter.py:999), so that both readings lag, and steps of a request that had already finished are in them
        (overlap scheduling; batch_result_processor.py:981-992): use meta_info or the counters where they can be had.
    """
    steps = after[1] - (before[1] if before is not None else 0)
    total = after[0] * after[1] - (before[0] * before[1] if before is not None else 0.0)
    return total / steps if steps > 0 else math.nan


def difference(before: Counts, after: Counts) -> Counts:
    """What happened between two readings of counters that only grow.

    Raises:
        InputRejected: ``acceptance.counters`` if one of them shrank: the server was restarted, or another one answered.
    """
    change = Counts(
        rounds=after.rounds - before.rounds,
        accepted=after.accepted - before.accepted,
        drafted=None if before.drafted is None or after.drafted is None else after.drafted - before.drafted,
        per_position=_added(after.per_position, None if before.per_position is None else tuple(-n for n in before.per_position)),
        lost=after.lost - before.lost,
    )
    wrong = change.contradictions
    if wrong:
        raise InputRejected(
            f"the counters before and after do not belong together: {'; '.join(wrong)}",
            rule="acceptance.counters",
            fix="Read both from one server process: behind a load balancer ask one replica, and do not restart it in between.",
        )
    return change


def _added(a: tuple[int, ...] | None, b: tuple[int, ...] | None) -> tuple[int, ...] | None:
    if a is None or b is None:
        return None
    size = max(len(a), len(b))
    return tuple(x + y for x, y in zip(a + (0,) * (size - len(a)), b + (0,) * (size - len(b)), strict=True))


def _whole(value: float) -> int:
    """A counter's value as the whole number that it is.

    Raises:
        InputRejected: ``acceptance.counters`` if it is none.
    """
    if not math.isfinite(value) or value != int(value):
        raise InputRejected(f"a counter has the value {value}", rule="acceptance.counters", fix="Read the counters of the engine itself.")
    return int(value)


def _is_count(value: Json) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
