"""The data flow of one step as ASCII: states into norms and fc, beside the embedding into the layer, out through head and vocab map."""

from __future__ import annotations

from typing import Any, Final

from contract.statement import fact
from eagle3_contract.model.spec import Contract
from eagle3_contract.model.states import FINAL_NORM

UNKNOWN: Final = "?"
_PIPE: Final = "          |"
_ARROW: Final = "          v"


def diagram(contract: Contract) -> list[str]:
    """The lines of the drawing; a value that the contract does not know is a question mark."""
    w = contract.wiring
    lines = [*_states(contract)]
    norms = _value(w.norms_before_fc)
    for norm in ["norms before fc: ?"] if norms is None else norms:
        text = {"input_norm": "input_norm over the concatenation", "fc_norm": "fc_norm, one per state"}.get(norm, norm)
        lines += [f"{_ARROW}  {text}"]
    if _value(w.fc_applied) is False:
        lines += [f"{_ARROW}  (no fc: the state goes straight in)"]
    else:
        bias = {True: " + bias", False: "", None: " (bias: ?)"}[_value(w.fc_bias)]
        lines += [_ARROW, f"      fc [{_said(w.hidden_size)} x {_width(contract)}]{bias}"]
    lines += [_PIPE, f"          h[t] ({_said(w.hidden_size)}) ------------> residual of the first layer: {_residual(w)}"]
    lines += [f"{_ARROW}  {_hidden_norms(w)}", *_embedding(contract)]
    lines += [_ARROW, *_layers(contract), f"          +--------------------> fed to the next step: {_feedback(w)}"]
    lines += [f"{_ARROW}  {_either(w.final_norm, 'final norm', 'no final norm')}"]
    lines += [f"      lm_head, {_owner(w.lm_head)} [{_said(contract.vocab.draft_size)} x {_said(w.hidden_size)}]"]
    lines += [f"{_ARROW}  {_map(contract)}", f"      x[t+{_next(contract)}], one of {_said(contract.vocab.target_size)} target tokens"]
    return lines


def _value(stated: Any) -> Any:
    return fact(stated).value


def _said(stated: Any) -> str:
    known = fact(stated)
    return str(known.value) if known.known else UNKNOWN


def _either(stated: Any, yes: str, no: str) -> str:
    return {True: yes, False: no, None: f"{yes}: ?"}[_value(stated)]


def _states(contract: Contract) -> list[str]:
    recipe, width = _value(contract.hidden_states.boundaries), _said(contract.target.hidden_size)
    if recipe is None:
        return ["  states of the target: ? --> cat"]
    if not recipe:
        return ["  states of the target: none --> cat"]
    names = [(FINAL_NORM if b == FINAL_NORM else f"boundary {b}", _meaning(b, _value(contract.target.layers))) for b in recipe]
    name_width, meaning_width = max(len(n) for n, _ in names), max(len(m) for _, m in names)
    lines = []
    for i, (name, meaning) in enumerate(names):
        joint = f"--> cat [{len(recipe)} x {width}]" if i == len(recipe) // 2 else ""
        lines.append(f"  {name:<{name_width}}  {meaning:<{meaning_width}} --+{joint}".rstrip())
    return [*lines, _PIPE]


def _meaning(state: Any, layers: int | None) -> str:
    if state == FINAL_NORM:
        return "after all layers and the final norm"
    if state == 0:
        return "the embedding, input of the first layer"
    if state == layers:
        return "after all layers, before the final norm"
    return f"after {state} layer{'s' if state > 1 else ''}, input of layer {state}"


def _width(contract: Contract) -> str:
    recipe, width = _value(contract.hidden_states.boundaries), _value(contract.target.hidden_size)
    return UNKNOWN if recipe is None or width is None else str(len(recipe) * width)


def _residual(w: Any) -> str:
    return {True: "the normed state", False: "the raw state", None: UNKNOWN}[_value(w.norm_before_residual)]


def _hidden_norms(w: Any) -> str:
    if _value(w.double_norm) is True:
        return "hidden_norm(input_layernorm(h))"
    return _either(w.hidden_norm, "hidden_norm", "no hidden_norm")


def _embedding(contract: Contract) -> list[str]:
    order = _value(contract.wiring.concat_order)
    pair = {"embedding_first": "[embedding, h]", "hidden_first": "[h, embedding]"}.get(order, "in an order that is not known: ?")
    hidden = _value(contract.wiring.hidden_size)
    width = UNKNOWN if hidden is None else str(2 * hidden)
    shift = _said(contract.alignment.token_shift)
    owner = _owner(contract.wiring.embedding)
    return [f"  x[t+{shift}] --> embedding, {owner} --> input_layernorm --> cat {pair} ({width})"]


def _owner(stated: Any) -> str:
    words = {
        "own": "its own",
        "target": "the target's",
        "tied_to_own": "tied to its own embedding",
        "tied_to_target": "tied to the target's embedding",
    }
    return words.get(_value(stated), UNKNOWN)


def _layers(contract: Contract) -> list[str]:
    w = contract.wiring
    count = _said(w.layers)
    kind = {"gqa": "attention", "mla": "latent attention", None: "attention (kind: ?)"}[_value(w.attention)]
    heads = f"{_said(w.heads)} heads, {_said(w.kv_heads)} for keys, of {_said(w.head_dim)}" if w.mla is None else f"{_said(w.heads)} heads"
    more = [_either(w.qk_norm, "q/k norms", ""), f"window {_said(w.window)}" if _value(w.window) else ""]
    extras = "".join(f", {m}" for m in more if m)
    rope = f"rope {_said(w.rope.type)}, theta {_said(w.rope.theta)}"
    lines = [
        f"      {count} layer{'' if count == '1' else 's'}: {kind}, {heads}{extras}",
        f"               {rope}; MLP {_said(w.intermediate_size)} ({_said(w.hidden_act)})",
    ]
    if count != "1":
        lines.append(f"               later layers enter through {_said(w.later_layer_norm)}, without the embedding")
    return [*lines, _PIPE]


def _feedback(w: Any) -> str:
    return {"pre_norm": "the state before the final norm", "post_norm": "the state after the final norm", None: UNKNOWN}[_value(w.feedback)]


def _map(contract: Contract) -> str:
    words = {
        "offset": "d2t: target id = i + d2t[i]",
        "absolute": "d2t: target id = d2t[i]",
        "identity": "no map: draft ids are target ids",
        None: "vocab map: ?",
    }
    return words[_value(contract.vocab.map)]


def _next(contract: Contract) -> str:
    shift = _value(contract.alignment.token_shift)
    return UNKNOWN if shift is None else str(shift + 1)
