"""What is sent: the prompt part of the contract's samples, or the lines of a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from contract.errors import ToolError, UserError
from contract.findings import Check
from contract.limits import Limits
from eagle3_contract.engines.prompt_lines import prompt_lines
from eagle3_contract.verify.server import rules
from eagle3_contract.verify.server.facts import Prompt, ServerFacts

if TYPE_CHECKING:
    from eagle3_contract.trainers.sample import TrainingSample
    from eagle3_contract.verify.sample_set import SampleSet

FROM_SAMPLES: Final = 32
"""Samples that are sent where nobody says which: enough to judge by, few enough for a server that has other work."""
DEFAULT_TOKENS: Final = 128
"""Tokens to continue each prompt by, unless --max-new-tokens says otherwise."""
ROOM: Final = 8
"""A prompt that leaves room for fewer tokens is not sent."""
FILE: Final = "--prompts"


def file_prompts(path: str, limits: Limits) -> list[Prompt]:
    """The prompts of a file.

    Raises:
        InputRejected: see ``prompt_lines``; ``server.prompts`` if the file has none.
        LimitExceeded: it has more than ``server_requests``.
    """
    found = [Prompt(id=id_, input_ids=tuple(ids)) for id_, ids in prompt_lines(path, limits)]
    if not found:
        raise rules.rejected("server.prompts", f"{path} holds no prompt")
    limits.enforce("server_requests", len(found), what=f"{path}: the prompts", rule="server.limit-exceeded")
    return found


def sample_prompts(samples: SampleSet, limits: Limits) -> Iterator[Prompt]:
    """The prompts of the first samples. Raises UserError: a sample cannot be read."""
    most = min(FROM_SAMPLES, limits.server_requests)
    for number, sample in enumerate(samples.read(limits=limits)):
        if isinstance(sample, UserError):
            raise sample
        prompt = prompt_of(sample)
        if prompt is not None:
            yield prompt
        if number + 1 >= most:
            return


def prompt_of(sample: TrainingSample) -> Prompt | None:
    """The tokens before the first one that training counted; without a loss mask the first half. None if that is nothing.

    Of packed documents the first one is taken, for no prompt reaches over two.
    """
    tokens = sample.input_ids_T.tolist()
    mask = None if sample.loss_mask_T is None else sample.loss_mask_T.tolist()
    if sample.document_ids_T is not None:
        own = [i for i, document in enumerate(sample.document_ids_T.tolist()) if document == int(sample.document_ids_T[0])]
        tokens, mask = [tokens[i] for i in own], None if mask is None else [mask[i] for i in own]
    first = len(tokens) // 2 if mask is None else next((i for i, m in enumerate(mask) if m), len(tokens))
    if not 0 < first < len(tokens):
        return None
    return Prompt(id=sample.name, input_ids=tuple(tokens[:first]), sample=sample.name, follows=tuple(tokens[first:]))


def tokens_for(prompt: Prompt, asked: int, facts: ServerFacts) -> int:
    """How many tokens to ask for: fewer than ``asked`` where prompt, answer and drafts would not fit in the server's context.

    Near its end vLLM skips the drafter and verifies zeros, which would count as refused drafts (v1/spec_decode, 0.32.0).
    """
    if facts.max_length is None:
        return asked
    return min(asked, facts.max_length - len(prompt.input_ids) - (facts.draft_tokens or 1) - 1)


def asked_tokens(given: int | None, limits: Limits) -> int:
    """``--max-new-tokens``, or the default. Raises LimitExceeded (``server.limit-exceeded``) beyond ``server_tokens``."""
    if given is None:
        return min(DEFAULT_TOKENS, limits.server_tokens)
    limits.enforce("server_tokens", given, what="--max-new-tokens", rule="server.limit-exceeded")
    return given


def fitting(prompts: Sequence[Prompt], asked: int, facts: ServerFacts) -> tuple[list[tuple[Prompt, int]], list[Check]]:
    """The prompts that fit into the server's context, each with the tokens to ask for, and what is said of the others.

    Raises:
        ToolError: ``server.prompts`` if none fits.
    """
    sized = [(prompt, tokens_for(prompt, asked, facts)) for prompt in prompts]
    fit = [(prompt, tokens) for prompt, tokens in sized if tokens >= min(ROOM, asked)]
    if not fit:
        raise ToolError(
            f"none of {len(prompts)} prompts leaves room for an answer in the server's {facts.max_length} tokens",
            rule="server.prompts",
            fix="Give shorter prompts with --prompts.",
        )
    left = [prompt.id for prompt, tokens in sized if tokens < min(ROOM, asked)]
    if not left:
        return fit, []
    says = f"{len(left)} of {len(prompts)} prompts are too long for the server's {facts.max_length} tokens ({', '.join(left[:3])} ...)"
    return fit, [rules.ANSWERS.failed(says, expected=len(prompts), actual=len(fit))]
