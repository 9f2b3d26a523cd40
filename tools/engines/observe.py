"""From a raw record to a row: what the engine really did, in the words of a reading.

Legend: T tokens, H drafter width, G target width.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file

from tools.engines import by_value, replay, targets
from tools.engines.drafters import Variant

LOST = re.compile(r"^(?:.*?\s)?([A-Za-z_][\w.]*(?:Error|Exception|Interrupt)(?:: .*)?)$", re.MULTILINE)
"""A line that names an exception and what it says (a source line of a traceback has a bracket behind the name)."""
NOISE = "Tokenizer not available when `skip_tokenizer_init=True`"
"""vLLM logs this at every start without a tokenizer."""
CLOSE, SECOND = 1e-3, 10.0
TYPES = {
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.bool: "BOOL",
}


def headers(folder: Path) -> list[dict[str, Any]]:
    """Every tensor of the folder's weight files: file, name, dtype, shape."""
    return [
        {"file": file.name, "name": name, "dtype": TYPES[value.dtype], "shape": list(value.shape)}
        for file in weight_files(folder)
        for name, value in sorted(tensors(file).items())
    ]


def weight_files(folder: Path) -> list[Path]:
    return sorted(f for f in folder.iterdir() if f.suffix in (".safetensors", ".bin"))


def tensors(file: Path) -> dict[str, torch.Tensor]:
    """What one weight file holds."""
    if file.suffix == ".bin":
        return dict(torch.load(file, weights_only=True))
    return dict(load_file(file))


def own_tensors(folder: Path) -> dict[str, torch.Tensor]:
    """All tensors of the folder; a name that is in several files is keyed ``NAME [FILE]`` from the second on."""
    found: dict[str, torch.Tensor] = {}
    for file in weight_files(folder):
        for name, value in tensors(file).items():
            found[name if name not in found else f"{name} [{file.name}]"] = value
    return found


def match(state: torch.Tensor, known: Mapping[int | str, torch.Tensor]) -> int | str | None:
    """The boundary (or ``final_norm``) that a captured state [T, G] is; None if none is clearly nearest and near."""
    errors = sorted(((float((state - v).abs().max() / v.abs().max()), k) for k, v in known.items()), key=lambda pair: pair[0])
    (best, name), (second, _) = errors[:2]
    return name if best < CLOSE and second > max(CLOSE, SECOND * best) else None


def _boundaries(fed: torch.Tensor, known: Mapping[int | str, torch.Tensor]) -> list[int | str | None]:
    width = next(iter(known.values())).shape[-1]
    return [match(part.float(), known) for part in fed[: len(targets.PROMPT)].split(width, -1)]


def _map(raw: Mapping[str, Any]) -> dict[str, Any]:
    held = raw.get("d2t")
    if held is None:
        return {"present": False}
    ids = held.to(torch.int64).contiguous()
    return {
        "present": True,
        "length": len(ids),
        "target_ids_first8": ids[:8].tolist(),
        "sha256_int64_le": hashlib.sha256(ids.numpy().astype("<i8").tobytes()).hexdigest(),
        "min": int(ids.min()),
        "max": int(ids.max()),
    }


def _params(raw: Mapping[str, Any], own: Mapping[str, torch.Tensor], target: Mapping[str, torch.Tensor]) -> dict[str, Any]:
    found = {}
    for name, value in raw["params"].items():
        if "d2t" in name or "draft_id_to_target_id" in name or "mask_hidden" in name:
            continue
        weight = raw["params"].get(f"{name.rpartition('.')[0]}.weight")
        found[name] = by_value.source(value, own, target, None if weight is None else weight.shape[-1])
        first = raw["params_as_loaded"].get(name)
        if first is not None and not torch.equal(first, value):
            found[name] |= {"replaced_after_load": True, "value_right_after_load": by_value.source(first, own, {})["source"]}
    return found


def _out_of_effect(params: Mapping[str, Any], own: Mapping[str, torch.Tensor]) -> list[str]:
    used = {p["tensor"] for p in params.values() if p["source"] == "checkpoint"}
    return sorted(n for n in own if n not in used and "d2t" not in n and "t2d" not in n)


def _by_layer(params: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Parameters as ``replay`` names them: no ``model.``, layers counted from 0, float32."""
    found = {n.removeprefix("model.").replace("midlayer.", "layers.0."): v.float() for n, v in params.items()}
    numbers = sorted({int(n.split(".")[1]) for n in found if n.startswith("layers.")})
    again = {f"layers.{n}.": f"layers.{i}." for i, n in enumerate(numbers)}
    return {next((new + n[len(old) :] for old, new in again.items() if n.startswith(old)), n): v for n, v in found.items()}


def _wiring(raw: Mapping[str, Any], variant: Variant, config: Mapping[str, Any]) -> dict[str, Any] | None:
    """The switches that explain the drafter's output on the prompt, and what its next step was handed."""
    events = raw["events"]
    drafts = [e for e in events if e["kind"] == "draft"]
    norms = [e for e in events if e["kind"] == "final_norm"]
    if not drafts or not norms:
        return None
    rows = slice(0, len(targets.PROMPT))
    normed = norms[0]["normed"][rows].float()
    settled: dict[str, Any] | None = {}
    if variant.base != "mla":
        params = _by_layer(raw["params"])
        windows = tuple(w for w in (config.get("sliding_window"), variant.flags.get("speculative_draft_window_size")) if isinstance(w, int))
        windows = tuple(sorted({v for w in windows for v in (w, w + 1)}))
        ids, positions = drafts[0]["input_ids"][rows].long(), drafts[0]["positions"][rows].long()
        embeds = params["embed_tokens.weight"][ids]
        fed = next((e for e in events if e["kind"] == "combine"), drafts[0])["fed"]
        head = params["layers.0.self_attn.q_proj.weight"].shape[0] // config.get("num_attention_heads", 4)
        settled = replay.settle(
            params, fed[rows].float(), embeds, raw["rope"]["table"][positions], raw["rms_norm_eps"][0], head, windows, normed
        )
        if settled is None:
            return {"matches": False}
    if len(drafts) > 1 and len(drafts[1]["fed"]):
        given = drafts[1]["fed"][0].float()
        last = len(targets.PROMPT) - 1
        apart = {
            "pre_norm": float((given - norms[0]["residual"][last].float()).abs().max()),
            "post_norm": float((given - norms[0]["normed"][last].float()).abs().max()),
        }
        near = min(apart, key=lambda k: apart[k])
        settled["next_step_hidden"] = near if apart[near] < 1e-3 * float(given.abs().max()) else None
    return settled


def _errors(log: str) -> tuple[str | None, str | None]:
    found = [m.strip()[:300] for m in LOST.findall(log) if NOISE not in m]
    return (found[0], found[-1]) if found else (None, None)


def observed(variant: Variant, folder: Path, target: Path) -> dict[str, Any]:
    """What was observed of one run.

    Args:
        variant: the variant that ran.
        folder: the drafter's folder, with ``raw.pt``, ``outcome.json`` and ``log.txt``.
        target: the target's folder.
    """
    told = json.loads((folder / "outcome.json").read_text())
    outcome = "ok" if told.get("answered") else "error_at_first_request" if told.get("loaded") else "error_at_load"
    first, last = _errors((folder / "log.txt").read_text()) if outcome != "ok" else (None, None)
    seen: dict[str, Any] = {"outcome": outcome, "error_first": first, "error_last": last}
    for key in ("flags_in_effect", "output_ids", "counters"):
        if key in told:
            seen[key] = told[key]
    raw = torch.load(folder / "raw.pt", weights_only=True) if (folder / "raw.pt").is_file() else {"events": []}
    for key in ("drafter_class", "target_class", "target_capture_list", "rms_norm_eps", "shared_with_target"):
        if key in raw:
            seen[key] = raw[key]
    seen["load_completed"] = raw.get("load_completed", False)
    own = own_tensors(folder)
    if seen["load_completed"]:
        seen["params"] = _params(raw, own, _target_tensors(target))
        if raw.get("shared_with_target", {}).get("lm_head") and seen["params"]["lm_head.weight"]["source"] != "target":
            # vLLM's CPU backend has emptied the target's head by now: it is known by being the same object.
            seen["params"]["lm_head.weight"] |= {"source": "target", "tensor": "lm_head.weight", "by": "the same object"}
        seen["checkpoint_tensors_not_in_effect"] = _out_of_effect(seen["params"], own)
    if "shared_with_target" in raw:
        seen["d2t"] = _map(raw)
    if raw.get("rope"):
        rope = raw["rope"]
        seen["rope"] = {k: rope[k] for k in ("class", "base", "rotary_dim", "max_position", "neox", "table_rows") if k in rope}
        seen["rope"]["table_row1_first4_cos"] = [round(float(x), 6) for x in rope["table"][1][:4]]
    return seen | _run(raw, variant, folder, target)


def _target_tensors(target: Path) -> dict[str, torch.Tensor]:
    with safe_open(target / "model.safetensors", "pt") as file:
        return {n: file.get_tensor(n) for n in file.keys() if "embed_tokens" in n or "lm_head" in n or n == "model.norm.weight"}  # noqa: SIM118 - safe_open is no mapping


def _run(raw: Mapping[str, Any], variant: Variant, folder: Path, target: Path) -> dict[str, Any]:
    """What the first request showed: states fed and captured, fc, wiring."""
    known = targets.reference(target)
    seen: dict[str, Any] = {}
    captured = next((e for e in raw["events"] if e["kind"] == "target"), None)
    if captured is not None:
        seen["boundaries_captured_by_target"] = [match(c[: len(targets.PROMPT)].float(), known) for c in captured["captured"]]
    draft = next((e for e in raw["events"] if e["kind"] in ("draft", "combine")), None)
    if draft is None:
        return seen
    fed = draft["fed"]
    seen["fed_width"] = fed.shape[-1]
    seen["boundaries_fed"] = _boundaries(fed, known)
    calls = [e for e in raw["events"] if e["kind"] == "fc"]
    finished = any(e["kind"] == "final_norm" for e in raw["events"])
    if finished or calls:
        seen["fc_applied_to_prompt_rows"] = bool(calls) and len(calls[0]["given"]) >= len(targets.PROMPT)
    if finished:
        config = json.loads((folder / "config.json").read_text())
        inner = config.get("transformer_layer_config")
        seen["wiring"] = _wiring(raw, variant, inner if isinstance(inner, dict) else config)
    return seen
