"""Flags that an engine ignores, or under which capture is known to break: a table, read by ``serving``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from contract.findings import Rule
from eagle3_contract.check.serving_rules import CAPTURE, CAPTURE_RISK, DUMMY, IGNORED, REAL, TOKEN_MAP
from eagle3_contract.readings.conditions import MISSING
from eagle3_contract.readings.reading import EngineReading
from eagle3_contract.readings.serve_asked import flag_value


class When(StrEnum):
    """When a flag counts as given."""

    ON = "on"
    SET = "set"
    SEVERAL = "more than one"
    MAPPING = "a mapping"


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """One flag.

    Attributes:
        flags: its names; the first one given counts.
        when: which values count.
        besides: flags one of which must be there too, with more than one rank.
        attention: only where the drafter's attention is this one.
        targets: only for target classes whose name starts with one of these.
        value: only these values, in lower case; empty for any.
    """

    engine: str
    flags: tuple[str, ...]
    rule: Rule
    says: str
    source: str
    when: When = When.SET
    besides: tuple[str, ...] = ()
    attention: str = ""
    targets: tuple[str, ...] = ()
    value: tuple[str, ...] = ()

    def given(self, reading: EngineReading) -> str | None:
        """The name under which the flag was given with a value that counts, or None."""
        if reading.engine != self.engine or (self.attention and reading.value("attention") != self.attention):
            return None
        if self.targets and not str(reading.target).startswith(self.targets):
            return None
        if self.besides and not any(_counts(When.SEVERAL, flag_value(reading.asked, f)) for f in self.besides):
            return None
        return next((f for f in self.flags if self._counts(reading.asked, f)), None)

    def _counts(self, flags: Mapping[str, Any], name: str) -> bool:
        value = flag_value(flags, name)
        return _counts(self.when, value) and (not self.value or str(value).lower() in self.value)


def _counts(when: When, value: Any) -> bool:
    if value is MISSING or value is None or value is False:
        return False
    if when is When.SEVERAL:
        return isinstance(value, int) and not isinstance(value, bool) and value > 1
    if when is When.MAPPING:
        return isinstance(value, Mapping)
    return str(value).lower() not in ("null", "none", "false", "0")


TP: Final = ("tp_size", "tensor_parallel_size", "tp")
NOTES: Final = (
    Note(
        engine="sglang",
        flags=("speculative_draft_load_format", "load_format"),
        value=("dummy",),
        rule=DUMMY,
        says="the weights are random, nothing is loaded from the files",
        source="sglang 0.5.23 model_executor/model_runner.py:1538-1549, model_loader/loader.py:1479-1532",
    ),
    Note(
        engine="vllm",
        flags=("speculative_config.draft_load_config.load_format", "load_format"),
        value=("dummy",),
        rule=DUMMY,
        says="the weights are random, nothing is loaded from the files",
        source="vllm 0.32.0 model_executor/model_loader/utils.py:46-56, dummy_loader.py",
    ),
    Note(
        engine="sglang",
        flags=("pp_size", "pipeline_parallel_size", "pp"),
        when=When.SEVERAL,
        rule=CAPTURE,
        says="capture runs on the layers of the last pipeline stage only",
        source="sglang 0.5.23 models: setters return early on other stages",
    ),
    Note(
        engine="vllm",
        flags=("pipeline_parallel_size", "pp"),
        when=When.SEVERAL,
        rule=CAPTURE,
        says="states of other pipeline stages are dropped: the list is rebuilt on the last stage",
        source="vllm-project/vllm#53052, #50514",
    ),
    Note(
        engine="sglang",
        flags=("enable_flashinfer_allreduce_fusion", "enable_aiter_allreduce_fusion"),
        when=When.ON,
        besides=TP,
        rule=CAPTURE_RISK,
        says="with the all-reduce fused into the next norm, capture has read one rank's partial sum",
        source="sgl-project/sglang#28343",
    ),
    Note(
        engine="sglang",
        flags=("disaggregation_mode",),
        rule=CAPTURE_RISK,
        says="disaggregated prefill has sized its buffer for the target's state and handed over another tensor (lower acceptance in the "
        "first round)",
        source="sgl-project/sglang#13590, #10059, #10801",
    ),
    Note(
        engine="vllm",
        flags=("kv_cache_dtype",),
        value=("fp8", "fp8_e4m3", "fp8_e5m2"),
        rule=CAPTURE_RISK,
        says="the drafter's keys and values take the target's 8-bit dtype too",
        source="vllm-project/vllm#24505",
    ),
    Note(
        engine="sglang",
        flags=("speculative_token_map",),
        rule=TOKEN_MAP,
        says="ignored for EAGLE3: the drafter's own d2t is used",
        source="sglang 0.5.23 speculative/eagle_worker_v2.py:325-330",
    ),
    Note(
        engine="sglang",
        flags=("speculative_draft_window_size",),
        attention="mla",
        rule=IGNORED,
        says="the MLA drafter has no window",
        source="sglang 0.5.23 arg_groups/fields/spec.py:165-168",
    ),
    Note(
        engine="vllm",
        flags=("speculative_config.draft_tensor_parallel_size",),
        rule=IGNORED,
        says="the setting has had no effect: the drafter is split as the target is",
        source="vllm-project/vllm#17499, #31345, #31398",
    ),
    Note(
        engine="vllm",
        flags=("hf_overrides",),
        when=When.MAPPING,
        rule=IGNORED,
        says="a mapping of overrides does not reach the drafter's config",
        source="seen on the running vllm 0.32.0",
    ),
    Note(
        engine="vllm",
        flags=("speculative_config.rejection_sample_method",),
        value=("synthetic",),
        rule=REAL,
        says="acceptance is drawn at a given rate, not decided by the target",
        source="vllm 0.32.0 v1/sample/rejection_sampler.py",
    ),
)
