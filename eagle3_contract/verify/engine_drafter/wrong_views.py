"""The key/value cache as engines get it wrong: each a hypothesis that is tried on the data where rows do not come out right.

Legend: N rows, see ``views``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from eagle3_contract.verify.engine_drafter.account import ROOT, Kind, Row
from eagle3_contract.verify.engine_drafter.views import Scene, Sight, View, committed_upto, right_sight


def _earlier_steps(scene: Scene, row: Row) -> list[int]:
    """The draft forwards of the same round before this row's own."""
    found: list[int] = []
    for k in range(row.forward - 1, -1, -1):
        if scene.account.phases[k] != "draft":
            break
        found.append(k)
    return found


def _own_lane(scene: Scene, number: int, row: Row) -> Sight:
    """Row i of a step stands behind row i of the step before, whoever its parent is."""
    if not row.drafted:
        return right_sight(scene, number, row)
    steps = [scene.of_forward(k) for k in _earlier_steps(scene, row)]
    return Sight(committed_upto(row), [*(rows[row.at] for rows in steps if row.at < len(rows)), number])


def _siblings(scene: Scene, number: int, row: Row) -> Sight:
    if not row.drafted:
        return right_sight(scene, number, row)
    return Sight(committed_upto(row), [*(n for k in _earlier_steps(scene, row) for n in scene.of_forward(k)), number])


def _no_drafts(scene: Scene, number: int, row: Row) -> Sight:
    return Sight(committed_upto(row), [number]) if row.drafted else right_sight(scene, number, row)


def _root_overwritten(scene: Scene, number: int, row: Row) -> Sight:
    sight = right_sight(scene, number, row)
    return replace(sight, upto=row.root) if row.drafted else sight


def _rejected_in_sight(scene: Scene, number: int, row: Row) -> Sight:
    """The length is not shortened by the rejected rows, so that those whose slots no draft has overwritten yet are still seen."""
    sight = right_sight(scene, number, row)
    if not row.drafted:
        return sight
    extend = row.forward - len(_earlier_steps(scene, row)) - 1
    kept = [n for n in scene.of_forward(extend, Kind.REJECTED) if scene.row(n).slot > row.slot] if extend >= 0 else []
    return replace(sight, more=[*sight.more, *kept])


def slots_behind(row: Row) -> range:
    """As many slots behind a row's own as its draft step counts."""
    return range(row.slot + 1, row.slot + 1 + row.slot - row.root)


def _beyond(scene: Scene, number: int, row: Row) -> Sight:
    """Draft step s reads s slots behind its own: what an earlier forward left there, or zeros where nobody has written."""
    sight = right_sight(scene, number, row)
    slots = slots_behind(row)
    left = [n for slot in slots if (n := scene.left_in(slot, row.forward)) is not None]
    return replace(sight, more=[*sight.more, *left], blank=len(slots) - len(left))


def _rejected_kept(scene: Scene, number: int, row: Row) -> Sight:
    sight = right_sight(scene, number, row)
    kept = [n for k in _extends(scene) if k < row.forward for n in scene.of_forward(k, Kind.REJECTED)]
    return replace(sight, more=[*sight.more, *kept])


def _extends(scene: Scene) -> list[int]:
    return [k for k, phase in enumerate(scene.account.phases) if phase == "extend"]


def _drafts_kept(scene: Scene, number: int, row: Row) -> Sight:
    sight = right_sight(scene, number, row)
    drafts = [k for k, phase in enumerate(scene.account.phases[: row.forward]) if phase == "draft"]
    kept = [n for k in drafts for n in scene.of_forward(k) if scene.row(n).root < row.root]
    return replace(sight, more=[*sight.more, *kept])


def _stale(scene: Scene, number: int, row: Row) -> Sight:
    """Rows of accepted drafts are read in later forwards as they were drafted."""
    return _with_stale(scene, number, row, at_once=False)


def _stale_at_once(scene: Scene, number: int, row: Row) -> Sight:
    """The same within the forward that should have rewritten them, the row's own key too."""
    return _with_stale(scene, number, row, at_once=True)


def _with_stale(scene: Scene, number: int, row: Row, *, at_once: bool) -> Sight:
    sight = right_sight(scene, number, row)
    more, less = list(sight.more), list[int]()
    own = set(scene.of_forward(row.forward))
    for n in accepted_drafts(scene):
        draft = scene.row(n)
        if draft.forward > row.forward or draft.slot >= len(scene.sequence):
            break
        if draft.root >= row.root:
            continue
        rewritten = scene.standing(draft.slot, row.forward)
        if rewritten != ROOT and scene.row(rewritten).again:
            continue  # run again after a preemption, in other places
        if rewritten in own and not at_once:
            continue
        if draft.slot < sight.upto or (at_once and rewritten == number):
            more = [m for m in more if m != rewritten] + [n]
            less.append(rewritten)
    return replace(sight, more=more, less=less)


def accepted_drafts(scene: Scene) -> list[int]:
    """N-rows of drafts whose token was accepted, in their order."""
    return [i + scene.before for i, row in enumerate(scene.account.rows) if row.accepted]


def _extend_rows_missing(scene: Scene, number: int, row: Row) -> Sight:
    sight = right_sight(scene, number, row)
    gone = [n for k in _extends(scene) if k < row.forward for n in scene.of_forward(k, Kind.COMMITTED)[:-1] if n != number]
    return replace(sight, less=gone)


def _this_forward_only(scene: Scene, number: int, row: Row) -> Sight:
    sight, k = right_sight(scene, number, row), row.forward
    while k > 0 and scene.account.phases[k] == "draft":
        k -= 1
    return replace(sight, since=scene.account.first_slot + scene.account.committed_before[k])


def _no_prefix(scene: Scene, number: int, row: Row) -> Sight:
    return replace(right_sight(scene, number, row), since=scene.before)


def _not_itself(scene: Scene, number: int, row: Row) -> Sight:
    sight = right_sight(scene, number, row)
    others = [n for n in sight.more if n != number]
    return replace(sight, more=others) if sight.upto or others else sight


def _no_order(scene: Scene, number: int, row: Row) -> Sight:
    sight = right_sight(scene, number, row)
    return replace(sight, more=[*sight.more, *scene.of_forward(row.forward)])


def _since(first: int) -> View:
    def sees(scene: Scene, number: int, row: Row) -> Sight:
        sight = right_sight(scene, number, row)
        return replace(sight, since=min(first, max(0, sight.upto - 1)))

    return View(f"since-{first}", f"no committed row of the first {first}", sees)


BLOCKS: Final = (1, 8, 16, 32, 64, 128)
"""First committed rows that may be missing: one, or the first block of a paged cache."""
LANES: Final = (
    "SGLang 0.5.23 does so in every tree: it reorders the states of the branches it goes on with (srt/speculative/spec_utils.py:463) "
    "and leaves "
    "their rows of the cache where they were (kernels/ops/speculative/cache_locs.py:161, "
    "srt/layers/attention/intel_amx_backend.py:462). Chains "
    "(speculative_eagle_topk 1) are not touched."
)
GROWS_TWICE: Final = (
    "vLLM 0.32.0 does so on a CPU with disable_padded_drafter_batch: seq_lens and seq_lens_cpu_upper_bound are one tensor there, and both "
    "are advanced in every step (v1/spec_decode/llm_base_proposer.py, _update_positions_dependent_metadata), so that lengths grow by 2. "
    "Leave the flag out."
)
BEYOND: Final = View(
    "beyond", "as many slots too many as its draft step counts, with what its own request left in them, or zeros", _beyond, GROWS_TWICE
)
WRONG_VIEWS: Final = (
    View("own-lane", "the draft rows in its own place of the earlier steps, and not its ancestors", _own_lane, LANES),
    View("siblings", "the draft rows of other branches, too", _siblings),
    View("no-drafts", "no draft row of the earlier steps of its round", _no_drafts),
    View("root-overwritten", "a draft where the last committed row should stand", _root_overwritten),
    View("rejected-in-sight", "rejected rows that the extend left behind the last committed one, too", _rejected_in_sight),
    BEYOND,
    View("rejected-kept", "the rejected rows of all earlier extends, too", _rejected_kept),
    View("drafts-kept", "the draft rows of all earlier rounds, too", _drafts_kept),
    View("stale", "accepted drafts as they were drafted, never rewritten from the target's states", _stale),
    View("stale-at-once", "accepted drafts as they were drafted, in the forward that should rewrite them, too", _stale_at_once),
    View("extend-rows-missing", "of each extend only the last committed row", _extend_rows_missing),
    View("this-forward-only", "no committed row from before the last forward that committed any", _this_forward_only),
    View("no-prefix", "no row of the cached prefix", _no_prefix),
    View("not-itself", "every key but its own", _not_itself),
    View("no-order", "the rows behind it in its forward, too", _no_order),
    *(_since(block) for block in BLOCKS),
)
