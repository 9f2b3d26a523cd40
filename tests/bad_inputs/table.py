"""The hostile inputs, by number: what each is, its one outcome, and the tests that hold it to that.

A test is ``file::function`` under tests/, or ``incident:name`` for a seeded fault of tests/incidents, or ``file::[id]`` for a parameter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

BAD: Final = "bad_inputs/"
CONTAINER, SHARDS, PICKLES = BAD + "test_01_30_safetensors.py", BAD + "test_31_42_sharding.py", BAD + "test_43_50_pickles.py"
TEXT, CONTENT, HEADER, JSON = (
    BAD + "test_yaml_text.py",
    BAD + "test_yaml_content.py",
    BAD + "test_yaml_header.py",
    BAD + "test_68_69_json.py",
)
LAST = BAD + "test_70_89.py"
NUMBERS = BAD + "test_numbers.py"

REJECT, VIOLATION, WARNING, ACCEPT = "rejected, exit 2", "violation, exit 1", "warning, exit 0", "accepted, exit 0"


@dataclass(frozen=True, slots=True)
class Row:
    """One number."""

    what: str
    outcome: str
    tests: tuple[str, ...]


def _row(what: str, outcome: str, *tests: str) -> Row:
    return Row(what, outcome, tests)


ROWS: Final[dict[int, Row]] = {
    1: _row("empty file", REJECT, f"{CONTAINER}::test_01_empty_file"),
    2: _row("three bytes", REJECT, f"{CONTAINER}::test_02_three_bytes"),
    3: _row("header length 2^63, 2^64-1", REJECT, f"{CONTAINER}::test_03_length_near_the_end_of_the_integers"),
    4: _row("header length above 100 MB", REJECT, f"{CONTAINER}::test_04_length_above_100_megabytes"),
    5: _row("header longer than the file", REJECT, f"{CONTAINER}::test_05_length_beyond_the_file"),
    6: _row("interrupted download", REJECT, f"{CONTAINER}::test_06_interrupted_download"),
    7: _row("header not UTF-8", REJECT, f"{CONTAINER}::test_07_header_is_not_utf8"),
    8: _row("byte order mark", REJECT, f"{CONTAINER}::test_08_byte_order_mark"),
    9: _row("header is no object", REJECT, f"{CONTAINER}::test_09_header_is_no_object"),
    10: _row("header without tensors", VIOLATION, f"{CONTAINER}::test_10_header_without_tensors"),
    11: _row("white space before the header", "accepted with a note, exit 0", f"{CONTAINER}::test_11_leading_white_space"),
    12: _row("NUL padding", REJECT, f"{CONTAINER}::test_12_padding_with_nul"),
    13: _row("bytes after the JSON", REJECT, f"{CONTAINER}::test_13_garbage_after_the_header"),
    14: _row("tensor named twice", REJECT, f"{CONTAINER}::test_14_tensor_named_twice"),
    15: _row("metadata key twice", REJECT, f"{CONTAINER}::test_15_metadata_key_twice"),
    16: _row("unknown field of an entry", REJECT, f"{CONTAINER}::test_16_unknown_field_of_an_entry"),
    17: _row("metadata value that is no string", REJECT, f"{CONTAINER}::test_17_metadata_that_is_no_map_of_strings"),
    18: _row("negative, float, bool or endless numbers", REJECT, f"{CONTAINER}::test_18_numbers_that_are_no_sizes"),
    19: _row("overlapping tensors", REJECT, f"{CONTAINER}::test_19_overlap"),
    20: _row("hole between tensors", REJECT, f"{CONTAINER}::test_20_hole"),
    21: _row("bytes after the last tensor", REJECT, f"{CONTAINER}::test_21_bytes_after_the_last_tensor"),
    22: _row("data cut off", REJECT, f"{CONTAINER}::test_22_data_cut_off"),
    23: _row("shape product overflows", REJECT, f"{CONTAINER}::test_23_shape_product_overflow"),
    24: _row("overflow behind a zero", REJECT, f"{CONTAINER}::test_24_overflow_hidden_behind_a_zero"),
    25: _row("ten thousand dimensions", REJECT, f"{CONTAINER}::test_25_ten_thousand_dimensions"),
    26: _row("unknown dtype", VIOLATION, f"{CONTAINER}::test_26_unknown_dtype"),
    27: _row("names that are empty, forge output or never end", REJECT, f"{CONTAINER}::test_27_names_that_forge_output"),
    28: _row("names that look alike", WARNING, f"{CONTAINER}::test_28_names_that_look_alike"),
    29: _row("metadata nested 100,000 deep", REJECT, f"{CONTAINER}::test_29_nesting_100k_deep"),
    30: _row("a million tensors", "accepted within the limits, exit 0", f"{CONTAINER}::test_30_a_million_tensors"),
    31: _row("index names a missing shard", REJECT, f"{SHARDS}::test_31_index_names_a_missing_shard"),
    32: _row("tensor that the index does not list", VIOLATION, f"{SHARDS}::test_32_shard_holds_a_tensor_that_the_index_does_not_list"),
    33: _row("tensor in two shards", REJECT, f"{SHARDS}::test_33_tensor_in_two_shards"),
    34: _row("index leads out of the folder", REJECT, f"{SHARDS}::test_34_index_leads_out_of_the_folder"),
    35: _row(
        "shard is a symlink out of the folder (Hub cache: accepted)",
        REJECT,
        f"{SHARDS}::test_35_shard_is_a_symlink_out_of_the_folder",
        f"{SHARDS}::test_35_hub_cache_is_allowed",
    ),
    36: _row("hard link", WARNING, f"{SHARDS}::test_36_hard_link"),
    37: _row("shard is a FIFO, device or folder", REJECT, f"{SHARDS}::test_37_shard_is_no_regular_file", f"{SHARDS}::test_37_device"),
    38: _row("total_size lies", VIOLATION, f"{SHARDS}::test_38_total_size_lies"),
    39: _row("duplicate keys in the index", REJECT, f"{SHARDS}::test_39_duplicate_keys_in_the_index"),
    40: _row("one of many shards is unreadable", REJECT, f"{SHARDS}::test_40_one_of_many_shards_is_unreadable"),
    41: _row("file changed while it is read", REJECT, f"{SHARDS}::test_41_file_is_cut_off_while_it_is_read"),
    42: _row("names that differ in case", WARNING, f"{SHARDS}::test_42_names_that_differ_in_case"),
    43: _row("pickles only", REJECT, f"{PICKLES}::test_43_pickles_only"),
    44: _row("__reduce__ in a pickle", REJECT, f"{PICKLES}::test_44_reduce_is_never_run"),
    45: _row("raw pickle, legacy archive", REJECT, f"{PICKLES}::test_45_raw_pickle_and_legacy_archives"),
    46: _row("zip bomb", REJECT, f"{PICKLES}::test_46_zip_bomb"),
    47: _row("zip that scanner and loader read differently", REJECT, f"{PICKLES}::test_47_local_and_central_names_differ"),
    48: _row("safetensors by name only", REJECT, f"{PICKLES}::test_48_safetensors_by_name_only"),
    49: _row("storage that claims more than there is", REJECT, f"{PICKLES}::test_49_storage_that_claims_more_than_there_is"),
    50: _row(".npy with objects", REJECT, f"{PICKLES}::test_50_npy_with_objects"),
    51: _row("alias bomb", REJECT, f"{TEXT}::[51-alias-bomb]"),
    52: _row("recursive alias", REJECT, f"{TEXT}::[52-recursive-alias]"),
    53: _row("YAML tags", REJECT, f"{TEXT}::[53-python-object]"),
    54: _row("duplicate keys", REJECT, f"{TEXT}::[54-duplicate]", f"{TEXT}::test_54_both_line_numbers"),
    55: _row("several documents", REJECT, f"{TEXT}::[55-two-documents]"),
    56: _row("empty", REJECT, f"{TEXT}::[56-empty]"),
    57: _row("tab indentation", REJECT, f"{TEXT}::[57-tab]"),
    58: _row("1e-3", "accepted as a number", f"{TEXT}::test_58_exponents_are_numbers"),
    59: _row("leading zero", REJECT, f"{TEXT}::[59-octal]", f"{TEXT}::test_59_the_fix_names_the_number"),
    60: _row("no, yes, on where a boolean is due", REJECT, f"{CONTENT}::test_60_a_word_where_a_boolean_is_due"),
    61: _row("NaN, infinite or negative tolerance", REJECT, f"{TEXT}::[61-nan]", f"{CONTENT}::test_61_a_tolerance_that_is_none"),
    62: _row("keys that are no strings", REJECT, f"{TEXT}::[62-int-key]"),
    63: _row("five megabytes", REJECT, f"{TEXT}::test_63_five_megabytes"),
    64: _row("nested 20,000 deep", REJECT, f"{TEXT}::[64-20k-brackets]"),
    65: _row("misspelt key", REJECT, f"{CONTENT}::test_65_a_misspelt_key"),
    66: _row("newer schema version", REJECT, f"{HEADER}::test_66_newer_says_upgrade"),
    67: _row("catastrophic regex in a waiver", REJECT, f"{LAST}::test_67_a_pattern_in_a_waiver_is_no_regex"),
    68: _row(
        "config with NaN, duplicates",
        REJECT,
        f"{JSON}::test_68_constants_that_are_no_json",
        f"{JSON}::test_68_duplicate_keys_are_both_named",
    ),
    69: _row("config nested 100,000 deep", REJECT, f"{JSON}::test_69_nesting_100k_deep"),
    70: _row(
        "expired waiver (unused: warning)",
        VIOLATION,
        "waivers/test_apply.py::test_the_last_day_is_included_and_an_expired_waiver_is_a_failure_of_its_own",
        "waivers/test_apply.py::test_an_unused_waiver_warns_and_one_that_was_not_needed_does_not",
    ),
    71: _row(
        "tolerance above the organisation's ceiling",
        REJECT,
        "policy/test_policy.py::test_a_tolerance_above_the_ceiling_is_rejected_at_its_line",
    ),
    72: _row("d2t absolute instead of offset, and the reverse", VIOLATION, "incident:direct-map", "incident:contract-says-direct-map"),
    73: _row(
        "d2t out of range, negative, duplicate, float, too short",
        VIOLATION,
        *(f"incident:map-{w}" for w in ("out-of-range", "negative-target", "duplicate-target", "as-float", "too-short")),
    ),
    74: _row("t2d disagrees with d2t", VIOLATION, "incident:mask-marks-other-tokens", "incident:mask-short"),
    75: _row("layer ids twice, as strings, reversed", VIOLATION, "incident:ids-twice", "incident:ids-as-strings", "incident:ids-reversed"),
    76: _row("fc width that no number of states gives", VIOLATION, "incident:fc-no-multiple"),
    77: _row("zeros, ones, random embedding", WARNING, "incident:zero-fc", "incident:norm-of-ones", "incident:random-head"),
    78: _row("NaN, infinite, subnormal weights", VIOLATION, "incident:one-nan", "incident:infinite-norm", "incident:uninitialised-memory"),
    79: _row("dtype is not the contract's", VIOLATION, "incident:listed-dtype"),
    80: _row("config says 40 layers, one is stored", VIOLATION, "incident:config-says-40-layers"),
    81: _row("vocabulary padded without being declared", VIOLATION, "incident:padding-not-declared"),
    82: _row("drafter is the target", VIOLATION, "incident:kind-19-the-target-itself"),
    83: _row("engine missing", REJECT, f"{LAST}::test_83_an_engine_that_is_not_here"),
    84: _row(
        "engine returns fewer rows, or layers in another order",
        REJECT,
        f"{LAST}::test_84_fewer_rows_than_tokens",
        "engines/test_transformers.py::test_layers_that_are_skipped_repeated_or_swapped_are_refused",
    ),
    85: _row(
        "capture keeps references to one storage", REJECT, "engines/test_transformers.py::test_a_capture_that_stores_references_is_caught"
    ),
    86: _row(
        "requests in another order",
        "told by their ids; an id twice: rejected, exit 2",
        f"{LAST}::test_86_requests_are_told_by_id_and_not_by_order",
    ),
    87: _row("NaN on both sides", VIOLATION, f"{LAST}::test_87_nan_on_both_sides", "verify/test_golden.py::test_nan_never_equals_anything"),
    88: _row(
        "disk full, broken pipe, signals",
        REJECT,
        "cli/test_process.py::test_a_full_disk",
        "cli/test_process.py::test_a_reader_that_goes_away",
        "cli/test_process.py::test_a_signal_ends_in_an_incomplete_report",
    ),
    89: _row(
        "locale that is not UTF-8, no HOME, nothing to write to",
        "works, or exit 2",
        "cli/test_process.py::test_a_locale_that_is_not_utf_8",
        "cli/test_process.py::test_without_home",
        f"{LAST}::test_89_a_folder_that_cannot_be_written",
    ),
    # From here on what attacks on this program found. Each made it hang, fill the memory, write elsewhere or end in a traceback, once.
    90: _row(
        "pipe as settings file, model card, sample, step summary, ref of a cache",
        REJECT,
        "settings/test_settings.py::test_odd_files",
        "card/test_card.py::test_into_a_model_card",
        "trainers/test_samples.py::test_a_pipe_among_the_samples_is_not_waited_for",
        "cli/test_outcomes.py::test_a_step_summary_that_is_a_pipe_is_not_waited_for",
    ),
    91: _row(
        "git that waits or writes without end",
        REJECT,
        "diff/test_git.py::test_a_git_that_waits_is_not_waited_for",
        "diff/test_git.py::test_a_git_that_writes_without_end_is_cut_off",
    ),
    92: _row(
        "settings file that names a file to be written",
        REJECT,
        "settings/test_settings.py::test_a_file_names_no_file_that_is_written",
    ),
    93: _row(
        "report over a model's file, a device, a pipe",
        REJECT,
        "cli/test_outcomes.py::test_no_report_takes_the_place_of_a_models_file",
        "files/test_paths_and_names.py::test_what_is_no_regular_file_is_not_replaced",
    ),
    94: _row(
        "sample that is a link out of its folder", REJECT, "trainers/test_samples.py::test_a_link_out_of_the_samples_folder_is_refused"
    ),
    95: _row(
        "folders nested without end",
        REJECT,
        "trainers/test_samples.py::test_folders_one_in_another_are_bounded",
        "check/test_run.py::test_folders_nested_without_end_are_a_limit_and_no_traceback",
    ),
    96: _row(
        "paths that no file can have, links in a circle",
        REJECT,
        "commands/test_hostile_paths.py::test_a_path_that_no_file_can_have",
        "commands/test_hostile_paths.py::test_a_folder_of_the_contract_that_leads_in_a_circle",
    ),
    97: _row(
        "arrow columns that share their children",
        REJECT,
        "trainers/test_samples_arrow.py::test_columns_that_share_their_children_are_counted_not_visited",
    ),
    98: _row("100,000 states of width 1", REJECT, "trainers/test_samples.py::test_more_states_than_a_target_has_layers_are_refused"),
    99: _row(
        "shell variables that grow a hundredfold each",
        REJECT,
        "readings/test_serve_args.py::test_variables_that_grow_beyond_measure_are_refused",
    ),
    100: _row(
        "numbers and versions of thousands of digits in flags",
        REJECT,
        "readings/test_serve_args.py::test_numbers_that_no_engine_takes",
        "readings/test_serve_args.py::test_a_version_that_is_none",
    ),
    101: _row(
        "config with numbers of four hundred digits",
        VIOLATION,
        f"{NUMBERS}::test_a_config_with_four_hundred_digits_is_violated",
        f"{NUMBERS}::test_a_rope_of_four_hundred_digits_is_violated",
    ),
    102: _row("rope parameters that together give no number", REJECT, f"{NUMBERS}::test_rope_parameters_that_give_no_number"),
    103: _row("drafter of 2^40 layers", REJECT, f"{NUMBERS}::test_more_layers_than_a_drafter_has_are_refused"),
    104: _row("vocabulary of 2^40 tokens, stated only", VIOLATION, f"{NUMBERS}::test_a_vocabulary_that_is_only_stated_takes_no_memory"),
    105: _row("d2t of NaN", VIOLATION, f"{NUMBERS}::test_a_vocab_map_of_floats_is_violated"),
    106: _row(
        "head without rows, recipe without a state",
        "told, no traceback",
        f"{NUMBERS}::test_a_head_without_rows_is_told_by_init",
        f"{NUMBERS}::test_a_recipe_without_a_state_is_shown",
    ),
    107: _row(
        "last state of another width than the states",
        REJECT,
        "trainers/test_samples.py::test_a_last_state_of_another_width_than_the_states_is_refused",
    ),
    108: _row(
        "golden rows too short for every step",
        "unknown, exit 3",
        "verify/test_golden.py::test_rows_of_a_text_too_short_for_every_step_are_open",
    ),
    109: _row(
        "60,000 tensors read by an engine",
        ACCEPT,
        "readings/test_text.py::test_the_fate_that_counts_is_found_without_a_search_for_each_tensor",
    ),
    110: _row(
        "bidirectional marks and endless values in a command line",
        REJECT,
        "cli/test_lines.py::test_what_is_quoted_of_the_command_line_does_not_act",
        "cli/test_outcomes.py::test_the_remedy_is_seen_after_a_long_value",
    ),
}

HEAD: Final = """# Hostile inputs

Checkpoints, contracts, captures and configs come from strangers and from crashed jobs. Each of these has one outcome and a test that holds
it to that. Generated from `tests/bad_inputs/table.py` by `python -m pytest tests/bad_inputs/test_table.py --update-goldens`.

| number | input | outcome | tests |
|---|---|---|---|
"""


def page() -> str:
    """The page docs/bad-inputs.md."""
    rows = [f"| {n} | {r.what} | {r.outcome} | {', '.join(f'`{t}`' for t in r.tests)} |" for n, r in sorted(ROWS.items())]
    return HEAD + "\n".join(rows) + "\n"
