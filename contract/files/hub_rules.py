"""The rules about repositories of the Hugging Face Hub: what each guards against, and what to do when it speaks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from contract.errors import InputRejected, ToolError
from contract.findings import Rule, Severity, Where

_E, _W, _N = Severity.ERROR, Severity.WARNING, Severity.NOTE
_PIN: Final = "Write the commit after the name, such as hf:org/name@0123456789abcdef0123456789abcdef01234567."
_ANSWER: Final = "An answer that is not what was asked for is a fault of the server, of a proxy on the way, or an attack."

# fmt: off
_TABLE: Final[tuple[tuple[str, Severity, str, str, str], ...]] = (
    # id after "hub.", severity, title (true when all is well), why, remedy
    ("id", _E, "A name with hf: names a repository of the Hub",
     "A misspelt name must not verify something else instead.",
     "Write hf:organisation/name@COMMIT, with the 40 characters of a commit."),
    ("not-installed", _E, "huggingface_hub is installed where a repository of the Hub is named",
     "Tokens, caches and addresses of the Hub are handled by its own library.",
     "pip install 'eagle3-contract[hub]'"),
    ("revision-not-pinned", _W, "Repositories of the Hub are named with a commit",
     "A branch or tag can be moved to other files after it was verified; the provenance of the report names the commit that was read.",
     _PIN),
    ("local-wins", _N, "No local file or folder is named like a repository of the Hub",
     "The local one is read; somebody else, or the same command in another folder, may read the Hub's.",
     "Write hf: before the name to mean the Hub, or ./ to mean the folder."),
    ("files-not-fetched", _N, "Every file of the repository is one that is read",
     "Code and other files that no check reads are not fetched; an engine that trusts remote code would run them.",
     "Look at them on the Hub; serve without trust_remote_code."),
    ("not-found", _E, "The repository, the revision and the file exist on the Hub",
     "The Hub says the same of a private repository without a token that may read it.",
     "Check the name; for a private repository log in with `hf auth login`, or set HF_TOKEN."),
    ("gated", _E, "The repository may be read with the token at hand",
     "Gated repositories ask for an agreement on their page.",
     "Agree on the page of the repository, then log in with `hf auth login`, or set HF_TOKEN."),
    ("unreachable", _E, "The Hub answers",
     "What cannot be fetched cannot be verified.",
     "Check the network and HF_ENDPOINT; with HF_HUB_OFFLINE=1 only the cache is read."),
    ("offline", _E, "With HF_HUB_OFFLINE everything that is needed is in the cache",
     "Offline, nothing is asked of the network.",
     "Fetch it once with `hf download ORG/NAME --revision COMMIT`, or unset HF_HUB_OFFLINE."),
    ("answer", _E, "The Hub's answers are what was asked for",
     _ANSWER,
     "Check HF_ENDPOINT and the proxy; ask again later."),
    ("wrong-content", _E, "Files of the Hub have the size and the digest that the Hub lists",
     "The file was cut off or replaced on the way.",
     "Ask again; compare the digest with the page of the file."),
    ("cache", _E, "The cache of the Hub can be used",
     "Files of the Hub are written to its cache and nowhere else.",
     "Set HF_HUB_CACHE to a folder that can be written, or name the snapshot folder itself."),
)
# fmt: on

HUB_RULES: Final[Mapping[str, Rule]] = {
    f"hub.{name}": Rule(id=f"hub.{name}", title=title, severity=severity, dimension="files", why=why, remedy=remedy, depth=None)
    for name, severity, title, why, remedy in _TABLE
}
"""Every rule of this module by id."""


def refused(rule: str, message: str, *, where: Where | None = None, fix: str | None = None) -> InputRejected:
    """The exception for a repository that cannot be used; ``fix`` defaults to the rule's remedy."""
    return InputRejected(message, rule=rule, fix=fix or HUB_RULES[rule].remedy, where=where)


def unavailable(rule: str, message: str) -> ToolError:
    """The exception for a Hub that does not answer, or a library that is not there."""
    return ToolError(message, rule=rule, fix=HUB_RULES[rule].remedy)
