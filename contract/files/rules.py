"""The rules about files: what each guards against, and what to do when it speaks.

``rejected`` builds the exception for an input that cannot be used at all (exit 2); a ``Problem`` is a fault found beside
others, which a check turns into a ``Check``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from contract.errors import InputRejected, LimitExceeded, UserError
from contract.findings import Check, Json, Rule, Severity, Where, check_from_error
from contract.limits import Limits

_E, _W, _N = Severity.ERROR, Severity.WARNING, Severity.NOTE
_REWRITE = "Write the file again with the safetensors library, or fetch it again and compare its sha256 with the publisher's."
_HEADER = "safetensors 0.8.0 accepts this header, or crashes on it later; what is verified must be what is loaded."
_FORMAT = "The safetensors format forbids it; a file like this comes from a crashed writer, an interrupted copy or an attack."
_PICKLE = "A pickle can run any code when it is loaded; scanners that look at opcodes have been bypassed many times."
_REPICKLE = "Convert the file to safetensors: torch.load(..., weights_only=True) in a sandbox, then safetensors.torch.save_file."
_RESAVE = "Write it again with torch.save (torch 1.6 or newer), or convert it to safetensors."
_JSON = "Readers disagree on what such JSON means: most keep the last duplicate, some the first; NaN is no JSON at all."

# fmt: off
_TABLE: Final[tuple[tuple[str, Severity, str, str, str], ...]] = (
    # id after "files.", severity, title (true when all is well), why, remedy
    ("limit-exceeded", _E, "Every input stays within the named limits",
     "An input without bounds can exhaust time or memory of the verifier.",
     "Make the input smaller; limits can be lowered but not raised by a flag."),
    ("limit-unknown", _E, "Only existing limits are configured",
     "A misspelt limit would silently protect nothing.",
     "Use the name of a limit."),
    ("limit-raised", _E, "Limits are only ever lowered",
     "A configuration must not loosen the protection of the verifier.",
     "Give a smaller number."),
    ("not-found", _E, "Every file that is named exists",
     "A missing file cannot be verified.",
     "Check the path."),
    ("unreadable", _E, "Every file can be read",
     "A file that cannot be read cannot be verified.",
     "Check the permissions and the disk."),
    ("not-regular", _E, "Files are regular files",
     "Opening a FIFO, socket or device can hang or have effects; a directory has no bytes.",
     "Replace it by a regular file."),
    ("path-escape", _E, "No name leaves the checkpoint folder",
     "A name with .., an absolute path or a backslash, or a symlink to elsewhere, makes the verifier read another file "
     "than the one that is published.",
     "Use plain relative names inside the folder; copy the file instead of linking it."),
    ("symlink", _E, "Files are no symlinks, except in a Hugging Face cache",
     "A symlink can be redirected between verification and loading. In a Hugging Face cache snapshots/<revision>/<file> "
     "may link to ../../blobs/<etag> of the same repository.",
     "Copy the file instead of linking it."),
    ("hard-link", _W, "Files have one name on disk",
     "Whoever holds the other name of a hard-linked file can change it after verification.",
     "Copy the file, or pin its sha256 in the contract."),
    ("changed-while-reading", _E, "Files stay as they are while they are read",
     "Size, modification time or inode differed before and after the read: what was verified is no longer what is on disk.",
     "Run again when nothing writes to the file."),
    ("header-too-small", _E, "A safetensors file has at least the 8 bytes of the header length",
     _FORMAT,
     _REWRITE),
    ("header-too-large", _E, "A safetensors header is at most as long as the limit",
     "A false length makes a reader allocate memory for it.",
     _REWRITE),
    ("header-truncated", _E, "The file is as long as its header claims",
     "An interrupted download leaves a file shorter than its header.",
     "Fetch the file again."),
    ("not-safetensors", _E, "A .safetensors file holds safetensors",
     "A pickle or zip under this name is loaded by readers that look at the bytes and refused by others.",
     _REPICKLE),
    ("header-not-utf8", _E, "The header is UTF-8",
     _FORMAT,
     _REWRITE),
    ("header-bom", _E, "The header starts without a byte order mark",
     _FORMAT,
     _REWRITE),
    ("header-syntax", _E, "The header is one strict JSON object and padding spaces",
     _FORMAT,
     _REWRITE),
    ("header-leading-space", _N, "The header starts with {",
     "The format says so; the library tolerates leading white space, other readers need not.",
     _REWRITE),
    ("header-number", _E, "Shapes and offsets are whole numbers from 0 to 2^63-1",
     _FORMAT,
     _REWRITE),
    ("duplicate-tensor", _E, "No tensor is named twice in one file",
     "The library keeps the last entry, other readers the first: verified and loaded weights would differ.",
     _REWRITE),
    ("duplicate-metadata-key", _E, "No metadata key appears twice",
     _HEADER,
     _REWRITE),
    ("duplicate-entry-field", _E, "No field of a tensor entry appears twice",
     _FORMAT,
     _REWRITE),
    ("unknown-entry-field", _E, "A tensor entry has dtype, shape and data_offsets and nothing else",
     _HEADER,
     _REWRITE),
    ("missing-entry-field", _E, "A tensor entry has dtype, shape and data_offsets",
     _FORMAT,
     _REWRITE),
    ("metadata-not-string", _E, "Metadata is a map of strings",
     _FORMAT,
     _REWRITE),
    ("shape-overflow", _E, "The product of a shape fits 63 bits",
     _HEADER,
     _REWRITE),
    ("size-mismatch", _E, "A tensor has as many bytes as shape and dtype say",
     _FORMAT,
     _REWRITE),
    ("overlap", _E, "Tensors do not overlap",
     "Two tensors that share bytes let one file carry hidden content.",
     _REWRITE),
    ("hole", _E, "Tensors leave no gap",
     "Bytes that belong to no tensor can carry hidden content.",
     _REWRITE),
    ("trailing-bytes", _E, "The file ends with its last tensor",
     "Bytes after the last tensor make a file that is two formats at once.",
     _REWRITE),
    ("data-truncated", _E, "The data of every tensor is in the file",
     "An interrupted write or download leaves the data short.",
     "Fetch or write the file again."),
    ("too-many-dims", _E, "Shapes have a sane number of dimensions",
     _HEADER,
     _REWRITE),
    ("tensor-name", _E, "Tensor names are printable, not empty, not overlong",
     "Names with control characters forge terminal, CI or log output.",
     "Rename the tensor."),
    ("no-tensors", _E, "A weight file holds tensors",
     "The library accepts an empty header; a drafter without tensors is served with random weights.",
     "Write the weights again."),
    ("unsupported-dtype", _E, "Every dtype is one that the format defines",
     "The library refuses the whole file when one dtype is unknown to it.",
     _REWRITE),
    ("ambiguous-names", _W, "No two tensor names look alike",
     "Names that differ only in Unicode form, invisible or look-alike characters hide a second tensor behind the first.",
     "Rename one of the tensors."),
    ("case-collision", _W, "No two names differ only in case",
     "They collide on file systems and in loaders that ignore case.",
     "Rename one of them."),
    ("index-malformed", _E, "The index is an object with weight_map, a map from tensor to file",
     "Engines read it to decide which shards exist.",
     "Write the checkpoint again."),
    ("missing-shard", _E, "Every shard that the index names exists",
     "Its tensors would be missing, and some loaders leave them uninitialised.",
     "Fetch the shard, or write the index again."),
    ("orphan-tensor", _E, "Every tensor of a shard is in the index",
     "Loaders that follow the index skip it, loaders that read whole shards use it.",
     "Write the index again."),
    ("missing-tensor", _E, "Every tensor of the index is in its shard",
     "Loaders that do not check leave it uninitialised.",
     "Write the checkpoint again."),
    ("tensor-in-two-files", _E, "No tensor is in two weight files",
     "Which copy wins depends on the order of the files; a second lm_head has won before.",
     "Remove the file that training did not mean."),
    ("total-size", _E, "metadata.total_size of the index is the sum of the tensors",
     "A wrong total shows an index of another checkpoint.",
     "Write the index again."),
    ("unlisted-weights", _E, "Every weight file is listed in the index",
     "Engines that load every file of the folder load it too.",
     "Remove the file, or list it."),
    ("extra-weights", _W, "There is one weight file, or an index",
     "Engines that load every safetensors file of the folder load this one too.",
     "Keep other files in another folder."),
    ("no-weights", _E, "The folder holds weights",
     "There is nothing to verify.",
     "Point to the folder with model.safetensors."),
    ("view-differs", _E, "The safetensors library sees the same tensors",
     "A reader that is believed must read what is loaded.",
     "Do not serve this file; report it."),
    ("pickle-refused", _E, "Weights are not pickled, or pickle was allowed",
     _PICKLE,
     "Convert to safetensors, or pass --allow-pickle: the file is then loaded by a child process without network, with "
     "time and memory limits and weights_only=True."),
    ("pickle-format", _E, "A pickle-family file is a plain torch zip",
     "Raw pickles, tar and TorchScript archives go through other, less guarded loaders.",
     _RESAVE),
    ("pickle-compressed", _E, "Every zip entry is stored, not deflated",
     "torch inflates a deflated record before it refuses it: 523 KB became 733 MB of memory.",
     _RESAVE),
    ("pickle-encrypted", _E, "No zip entry is encrypted",
     "Scanners skip encrypted entries while loaders may not.",
     _RESAVE),
    ("pickle-names", _E, "Local and central zip names agree and are torch's",
     "Scanners read one name, loaders the other.",
     _RESAVE),
    ("pickle-sizes", _E, "Zip entries fit into the file and do not overlap",
     "Overlapping entries let a small file pose as a large one.",
     _RESAVE),
    ("pickle-crc", _E, "Zip entries have the checksums they claim",
     "A damaged record, or one swapped after it was scanned.",
     _RESAVE),
    ("pickle-blocked", _E, "torch loads the file with weights_only=True",
     "It names something else than tensors and plain values, or is damaged; it is never loaded without that guard.",
     _REPICKLE),
    ("pickle-timeout", _E, "A pickle-family file loads in time",
     "A pickle can loop or expand without end.",
     _REPICKLE),
    ("pickle-isolation", _E, "The loader of pickles can be isolated",
     "Without a seccomp filter or a network namespace the child process could open connections.",
     "Run on Linux with seccomp, or convert the file to safetensors elsewhere."),
    ("pickle-content", _E, "A pickle-family file holds tensors and plain values only",
     "Other objects have no meaning for a verifier.",
     _REPICKLE),
    ("npy-format", _E, "A .npy file is a plain array of numbers",
     "An object array is a pickle; a header is a Python expression.",
     "Save it again with numpy.save(..., allow_pickle=False)."),
    ("json-too-large", _E, "A JSON file is at most as long as the limit",
     "A huge file exhausts memory.",
     "Make the file smaller."),
    ("json-not-utf8", _E, "JSON is UTF-8 without byte order mark",
     _JSON,
     "Save the file as UTF-8 without byte order mark."),
    ("json-syntax", _E, "JSON is strict",
     _JSON,
     "Mend the syntax."),
    ("json-constant", _E, "JSON holds no NaN or Infinity",
     _JSON,
     "Write a finite number, null or a string."),
    ("json-duplicate-key", _E, "No JSON object has a key twice",
     _JSON,
     "Remove one of the two."),
    ("json-too-deep", _E, "JSON is nested at most as deep as the limit",
     "Deep nesting overflows the stack of other readers.",
     "Flatten the file."),
    ("write-failed", _E, "Output files can be written",
     "The disk is full, or the folder is not writable; no partial file was left.",
     "Make room, or name another folder."),
)
# fmt: on

RULES: Final[Mapping[str, Rule]] = {
    f"files.{name}": Rule(id=f"files.{name}", title=title, severity=severity, dimension="files", why=why, remedy=remedy)
    for name, severity, title, why, remedy in _TABLE
}
"""Every rule of this package by id."""


def rejected(rule: str, message: str, *, where: Where | None = None, fix: str | None = None) -> InputRejected:
    """The exception for an input that cannot be used; ``fix`` defaults to the rule's remedy."""
    return InputRejected(message, rule=rule, fix=fix or RULES[rule].remedy, where=where)


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A fault of a checkpoint, found beside others.

    Attributes:
        rule: the rule that is broken.
        message: what was seen.
        where: file and tensor.
        expected, actual: the two values, where there are two.
        error: the exception, if the fault makes a file unusable (exit 2).
    """

    rule: Rule
    message: str
    where: Where | None = None
    expected: Json = None
    actual: Json = None
    error: UserError | None = None

    @property
    def severity(self) -> Severity:
        return self.rule.severity

    @property
    def rejects(self) -> bool:
        """True if the fault makes a file unusable."""
        return self.error is not None

    def as_check(self) -> Check:
        """The check this fault leaves in a report."""
        if self.error is not None:
            return check_from_error(self.error)
        return self.rule.failed(self.message, where=self.where, expected=self.expected, actual=self.actual)


def problem(rule: str, message: str, *, where: Where | None = None, expected: Json = None, actual: Json = None) -> Problem:
    """A ``Problem`` under the rule with that id."""
    return Problem(rule=RULES[rule], message=message, where=where, expected=expected, actual=actual)


def problem_from_error(error: UserError) -> Problem:
    """A ``Problem`` that remembers why a file was unusable."""
    return Problem(rule=RULES[error.rule], message=error.message, where=error.where, error=error)


def within_findings(problems: Iterable[Problem], limits: Limits, *, what: str, where: Where | None = None) -> list[Problem]:
    """The problems up to the limit ``findings``, and one that says that there are more. The rest is not made: a file can have millions."""
    found: list[Problem] = []
    for one in problems:
        if len(found) == limits.findings:
            more = LimitExceeded(
                "findings",
                allowed=limits.findings,
                actual=limits.findings + 1,
                rule="files.limit-exceeded",
                where=where,
                what=f"{what}: problems",
            )
            return [*found, problem_from_error(more)]
        found.append(one)
    return found
