"""Named limits on everything that is read, so that no input can exhaust the machine.

A limit that is hit raises ``LimitExceeded`` with both numbers. The defaults are generous for real checkpoints (Kimi-K2.5 has about
211,000 tensors in 200 shards and 30 MB of headers); an environment or an organisation may lower them, nothing may raise them.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from contract.errors import LimitExceeded, UsageError
from contract.findings import Where

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Upper bounds, each inclusive. Sizes are bytes, times are seconds.

    Attributes:
        header_bytes: one safetensors header (the safetensors library has the same cap, ``MAX_HEADER_SIZE``).
        total_header_bytes: all headers of one checkpoint together.
        tensors: tensors of one checkpoint.
        dims: dimensions of one tensor.
        name_length: characters of a tensor or file name.
        shards: weight files of one checkpoint.
        folder_files: directory entries of a checkpoint folder.
        index_bytes: one ``*.index.json``.
        json_bytes: any other JSON file.
        json_depth: nesting of a JSON file.
        yaml_bytes: a YAML file.
        yaml_depth: nesting of a YAML file.
        yaml_nodes: nodes of a YAML file.
        npy_header_bytes: header of a ``.npy`` file.
        pickle_bytes: a pickle-family file, its inflated size, and the sum of the tensors it yields.
        pickle_entries: entries of the zip that a pickle-family file is.
        pickle_seconds: wall clock and CPU time of the child process that loads it.
        pickle_memory_bytes: address space that child may add to what importing torch took.
        capture_bytes: one capture bundle, and what an engine's hooks write before it becomes one.
        capture_requests: requests that a capture keeps; those after them are counted only.
        capture_rows: rows (tokens) that a capture keeps of one request; later ones are left out.
        spool_events: events that an engine's hooks write in one capture.
        engine_seconds: one run of an engine, its start included.
        engine_log_bytes: what an engine writes to its log in one run.
        server_requests: prompts that a running server is sent in one run.
        server_tokens: tokens that it is asked to continue one prompt by.
        server_response_bytes: one answer of a server, headers and all.
        server_request_seconds: wall clock of one answer.
        server_seconds: wall clock of all of them together.
        samples: training samples of one run.
        folder_depth: folders one in another, of samples or below a drafter.
        shell_characters: what the variables of a shell script become in all, each put in where it is used.
        findings: findings of one report, passed checks not counted; also the problems told of one checkpoint.
        regex_length: characters of a pattern that a file brings (rules and versions of waivers, forbidden rules of a policy).
        hub_list_bytes: what the Hub says of one repository.
        hub_bytes: what is read of files on the Hub by ranges, in one run.
        hub_download_bytes: the files of one repository that are fetched whole.
        hub_seconds: wall clock of one answer of the Hub (at most 16 MiB of a file).
    """

    header_bytes: int = 100_000_000
    total_header_bytes: int = 1 * GIB
    tensors: int = 2_000_000
    dims: int = 16
    name_length: int = 1024
    shards: int = 5_000
    folder_files: int = 20_000
    index_bytes: int = 256 * MIB
    json_bytes: int = 64 * MIB
    json_depth: int = 64
    yaml_bytes: int = 256 * KIB
    yaml_depth: int = 32
    yaml_nodes: int = 20_000
    npy_header_bytes: int = 64 * KIB
    pickle_bytes: int = 16 * GIB
    pickle_entries: int = 100_000
    pickle_seconds: int = 120
    pickle_memory_bytes: int = 24 * GIB
    capture_bytes: int = 64 * GIB
    capture_requests: int = 10_000
    capture_rows: int = 131_072
    spool_events: int = 1_000_000
    engine_seconds: int = 14_400
    engine_log_bytes: int = 256 * MIB
    server_requests: int = 1_000
    server_tokens: int = 4_096
    server_response_bytes: int = 16 * MIB
    server_request_seconds: int = 300
    server_seconds: int = 3_600
    samples: int = 1_000_000
    folder_depth: int = 64
    shell_characters: int = 4_194_304
    findings: int = 10_000
    regex_length: int = 256
    hub_list_bytes: int = 64 * MIB
    hub_bytes: int = 64 * GIB
    hub_download_bytes: int = 2048 * GIB
    hub_seconds: int = 300

    def lowered(self, **bounds: int) -> Limits:
        """A copy with some limits lowered.

        Raises:
            UsageError: for a name that is no limit, a value below 1, or one above the present limit.
        """
        known = {f.name: int(getattr(self, f.name)) for f in fields(self)}
        for name, value in bounds.items():
            if name not in known:
                raise UsageError(f"there is no limit named {name!r}", rule="files.limit-unknown", fix=f"Name one of {', '.join(known)}.")
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= known[name]:
                raise UsageError(
                    f"limit {name}: {value!r} is not a whole number from 1 to {known[name]}",
                    rule="files.limit-raised",
                    fix=f"Limits can only be lowered; give {name} a whole number of at most {known[name]}.",
                )
        return replace(self, **bounds)

    def enforce(self, limit: str, actual: int, *, what: str, where: Where | None = None, rule: str = "files.limit-exceeded") -> None:
        """Raise ``LimitExceeded`` if ``actual`` is above the limit of that name. ``what`` is the noun of the message."""
        allowed = int(getattr(self, limit))
        if actual > allowed:
            raise LimitExceeded(limit, allowed=allowed, actual=actual, rule=rule, where=where, what=what)


DEFAULT_LIMITS = Limits()
