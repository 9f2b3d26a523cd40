"""Which engine answers. Both speak the OpenAI API and say in its list of models whose it is; every other one is refused by its name."""

from __future__ import annotations

from typing import Any, Final

from contract.errors import InputRejected
from contract.files.names import shown
from contract.findings import Json
from eagle3_contract.verify.server.client import Answer, Client
from eagle3_contract.verify.server.facts import Server
from eagle3_contract.verify.server.rules import rejected
from eagle3_contract.verify.server.sglang import open_sglang
from eagle3_contract.verify.server.shape import count, text
from eagle3_contract.verify.server.vllm import open_vllm

MODELS: Final = "/v1/models"


def recognise(client: Client) -> Server:
    """The server behind a client.

    Raises:
        InputRejected: ``server.engine`` if it is neither vLLM nor SGLang.
        UserError: it cannot be asked; see ``Client.ask``.
    """
    answer = client.get(MODELS)
    card = _base_model(_listed(client, answer)) if answer.status == 200 else {}
    owner = text(card.get("owned_by"))
    max_length = count(card.get("max_model_len"))
    server: Server | None = None
    if owner in (None, "sglang"):
        server = open_sglang(client, max_length)
    if server is None and owner == "vllm":
        server = open_vllm(client, text(card.get("id")), text(card.get("root")), max_length)
    if server is not None:
        return server
    name = owner or answer.server or "a server without a name"
    raise rejected("server.engine", f"{client.address} is {shown(name)}: this version verifies servers of vLLM and SGLang")


def _listed(client: Client, answer: Answer) -> Json:
    """The list of models. A page instead of JSON is what a web server says that is no engine."""
    try:
        return client.as_json(answer, f"GET {MODELS}")
    except InputRejected as error:
        if error.rule != "files.json-syntax":
            raise
        raise rejected("server.engine", f"{client.address} answers {MODELS} with something that is no JSON") from error


def _base_model(listed: Json) -> dict[str, Any]:
    """The first model that is no adapter of another one; empty if the list has another shape."""
    data = listed.get("data") if isinstance(listed, dict) else None
    cards = [c for c in data if isinstance(c, dict)] if isinstance(data, list) else []
    return next((c for c in cards if c.get("parent") is None), cards[0] if cards else {})
