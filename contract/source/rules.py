"""The rules that the text of a contract keeps, and the one way to reject it."""

from __future__ import annotations

from typing import Final

from contract.errors import InputRejected
from contract.findings import Rule, Severity, Where
from contract.source.nodes import Mark

_SOURCES = "YAML 1.2.2 §10.3 core schema; PyYAML reads YAML 1.1, where `no` is false, `010` is 8 and `1e-3` is a string."


def _rule(name: str, title: str, why: str, remedy: str) -> Rule:
    return Rule(id=f"contract.{name}", title=title, severity=Severity.ERROR, dimension="contract", why=why, remedy=remedy)


SOURCE_RULES: Final[tuple[Rule, ...]] = (
    _rule(
        "file-unreadable",
        "The contract is a regular file that can be read",
        "A contract that is missing, a folder, a pipe or a device cannot be read, so nothing can be verified.",
        "Name the file itself (a contract, its waivers, a policy), and give this user permission to read it.",
    ),
    _rule(
        "file-too-large",
        "The contract is no larger than the limit yaml_bytes",
        "A contract is a page of text; a file of megabytes is something else, and parsing it could exhaust the machine.",
        "Keep only the contract in this file.",
    ),
    _rule(
        "path-escape",
        "The folders that a contract names lie in its own",
        "A contract comes from strangers like the checkpoint does; a path out of its folder would make the verifier read other files.",
        "Name a folder below the contract file, without `..`.",
    ),
    _rule(
        "encoding",
        "The contract is UTF-8 without a byte order mark",
        "Other encodings make one file read differently by different programs.",
        "Save the file as UTF-8 without a byte order mark.",
    ),
    _rule(
        "control-character",
        "The contract contains no control characters",
        "Control characters and unusual line breaks can hide a key from a reviewer's eye while the parser sees it.",
        "Remove the character; write line ends as LF or CRLF.",
    ),
    _rule(
        "yaml-syntax",
        "The contract is well-formed YAML",
        "A file that does not parse states nothing.",
        "Correct the syntax at the line named.",
    ),
    _rule(
        "yaml-tab",
        "The contract is indented by spaces",
        "YAML forbids tabs in indentation; some parsers accept them and see another structure.",
        "Replace the tab by spaces.",
    ),
    _rule(
        "yaml-alias",
        "The contract uses no anchors and no aliases",
        "Aliases expand exponentially (a few lines become gigabytes) and make one edit change several statements.",
        "Write the value out in both places.",
    ),
    _rule(
        "yaml-tag",
        "The contract uses no tags",
        "Tags can ask a loader to build arbitrary objects (`!!python/object`), or silently change a value's type.",
        "Remove the tag; quote the value if it is meant as a string.",
    ),
    _rule(
        "yaml-merge-key",
        "The contract uses no merge keys",
        "`<<` is no part of YAML 1.2; readers disagree on what it does.",
        "Write the keys out.",
    ),
    _rule(
        "yaml-multiple-documents",
        "The contract file holds one document",
        "With several documents in a file, readers disagree on which one counts.",
        "Keep one document per file.",
    ),
    _rule(
        "yaml-empty",
        "The contract file is not empty",
        "An empty file states nothing, and nothing may be taken as agreement.",
        "Write a contract with `contract init`.",
    ),
    _rule(
        "yaml-duplicate-key",
        "No key is given twice",
        "Most loaders keep the last of two equal keys without a word, so that a reviewer reads one value and the tool another.",
        "Remove one of the two lines.",
    ),
    _rule(
        "yaml-key-not-string",
        "Every key is a string",
        "A number, a boolean, null or a collection as a key names no field of a contract.",
        "Quote the key if it is meant as a string.",
    ),
    _rule(
        "yaml-too-deep",
        "The contract nests no deeper than the limit yaml_depth",
        "Deep nesting exhausts the stack of recursive readers.",
        "Flatten the structure; no field of a contract nests that deep.",
    ),
    _rule(
        "yaml-too-many-nodes",
        "The contract has no more nodes than the limit yaml_nodes",
        "A contract has some hundred nodes; far more exhaust the machine.",
        "Keep only the contract in this file.",
    ),
    _rule(
        "yaml-leading-zero",
        "No number has a leading zero",
        f"`010` is 8 to a YAML 1.1 reader and 10 to a YAML 1.2 one: a layer id would silently change. {_SOURCES}",
        "Write the number without leading zeros, or quote it if it is an identifier.",
    ),
    _rule(
        "yaml-number-notation",
        "Whole numbers are written in decimal",
        f"`0o17` and `0x1F` are numbers to some readers and strings to others. {_SOURCES}",
        "Write the number in decimal, or quote it if it is an identifier.",
    ),
    _rule(
        "yaml-number-range",
        "Every number is finite and fits into 64 bits",
        "`.nan` and `.inf` make every comparison true or false by accident; a tolerance of infinity passes everything.",
        "Write a finite number, or quote the value if it is an identifier.",
    ),
    _rule(
        "schema-version",
        "schema_version is a whole number that this tool knows",
        "A contract of a newer version may state things that this tool would not check.",
        "Upgrade eagle3-contract, or correct schema_version.",
    ),
    _rule(
        "kind",
        "kind names an installed drafter family",
        "The kind decides which fields a contract has and which rules apply.",
        "Write `kind: eagle3`, or install the package that brings the kind.",
    ),
)
_BY_ID: Final = {rule.id: rule for rule in SOURCE_RULES}


def reject(
    name: str, message: str, *, file: str, mark: Mark | None = None, key: str | None = None, fix: str | None = None
) -> InputRejected:
    """The exception for one of ``SOURCE_RULES``, named without its ``contract.`` prefix; to be raised by the caller."""
    rule = _BY_ID[f"contract.{name}"]
    where = Where(file=file, line=mark.line if mark else None, column=mark.column if mark else None, key=key)
    return InputRejected(message, rule=rule.id, fix=fix or rule.remedy, where=where)
