"""Known faults of trainers, by version: what a checkpoint or dump of that version carries although its config does not say so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from eagle3_contract.trainers.versions import before


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault. ``since`` and ``until`` bound the versions (``until`` exclusive); None is unbounded."""

    trainer: str
    text: str
    source: str
    since: str | None = None
    until: str | None = None

    def touches(self, version: str | None) -> bool:
        """Whether the fault can be in this version; an unknown version is touched by every fault."""
        if version is None:
            return True
        early = before(version, self.since) if self.since else False
        late = before(version, self.until) is False if self.until else False
        return not early and not late


FAULTS: Final = (
    Fault(
        trainer="speculators",
        since="0.3",
        until="0.4",
        text="training targets were computed from the last state without the target's final norm",
        source="0.3.0 models/eagle3/core.py:328; mended in 0.4.0",
    ),
    Fault(
        trainer="speculators",
        until="0.5",
        text="states were captured after their layers, and the ids are not in config.json: vLLM feeds each state one layer early",
        source="0.3.0 data_generation/custom_worker.py:44-52",
    ),
    Fault(
        trainer="speculators",
        since="0.6",
        text="the default drafter slides its attention window at 2048 keys on every layer",
        source="0.9.0 train/config/schema.py:145-185",
    ),
    Fault(
        trainer="specforge",
        text="norm_output means the norm before the head; vLLM and SGLang read it as what is fed back",
        source="0.2.0 modeling/draft/llama3_eagle.py:1690,1772-1778",
    ),
    Fault(
        trainer="eagle",
        text="cache.pt in the working directory is reused blindly: the vocab map may be another data set's",
        source="cb7e084 traineagle3/cnets.py:667-676",
    ),
    Fault(
        trainer="eagle",
        text="with too few distinct tokens the vocab map is shorter than draft_vocab_size",
        source="cb7e084 traineagle3/cnets.py:667-676",
    ),
    Fault(
        trainer="modelopt",
        since="0.41",
        text="the hidden stream is normed twice; vLLM and SGLang norm it once",
        source="0.41.0 to 0.47.0 speculative/plugins/modeling_eagle.py:76-80,114-127",
    ),
    Fault(
        trainer="modelopt",
        since="0.41",
        text="the export may write a YaRN scaling that training did not use",
        source="0.47.0 speculative/config.py:380, export/plugins/hf_spec_export.py:213-218",
    ),
    Fault(
        trainer="modelopt",
        text="d2t is not in ascending order and no t2d is saved; a map rebuilt from a mask of tokens is wrong",
        source="0.47.0 speculative/utils.py:62-76",
    ),
    Fault(
        trainer="angelslim",
        text="rope_theta is ignored unless the rope is mrope: training used 10000",
        source="0.5.0 models/draft/llama_eagle3.py:257-288",
    ),
    Fault(
        trainer="angelslim",
        text="layer ids under aux_hidden_states_layer_ids are read by no engine, and are concatenated in the order listed",
        source="0.5.0 trainer/online_eagle3_trainer.py:54, models/target/target_model_wrapper.py:627",
    ),
    Fault(
        trainer="torchspec",
        text="pruning after training picks lm_head rows by offset instead of by id",
        source="6f21829 tools/convert_to_hf.py:235,309,312",
    ),
)


def known_faults(trainer: str, version: str | None) -> list[str]:
    """What is known to be wrong with this version, each with its source."""
    return [f"{f.text} ({f.trainer} {f.source})" for f in FAULTS if f.trainer == trainer and f.touches(version)]
