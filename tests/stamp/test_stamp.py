"""The file that trainers copy: alone, short, strict about what it is given; and what the reader makes of it and of its edits."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from factory import pair, tiny
from safetensors.torch import load_file
from torch import Tensor

from contract.errors import InputRejected
from contract.findings import Status
from eagle3_contract.drafter.drafter import Drafter
from eagle3_contract.drafter.forward import teacher_forced
from eagle3_contract.drafter.weights import MemorySource
from eagle3_contract.stamp import contract_stamp
from eagle3_contract.stamp.contract_stamp import GOLDEN, RECOMMENDED, STAMP, stamp
from eagle3_contract.stamp.read import read_stamp
from eagle3_contract.verify.golden import read_golden

SOURCE = Path(contract_stamp.__file__)
T = 12
DECLARED: dict[str, Any] = {"training.trainer": "mine", "hidden_states.boundaries": [2, 4, "final_norm"], "wiring.window": None}


def inputs() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randint(0, 96, (T,), generator=generator), torch.randn(T, 96, generator=generator)


def forward(ids_T: Tensor, fed_TC: Tensor) -> list[Tensor]:
    """Three steps of T-1 rows; the rows that have no token hold rubbish, as in a trainer that pads."""
    return [torch.arange(len(ids_T) - 1.0)[:, None] + torch.arange(24.0) + step for step in range(3)]


def stamped(folder: Path, **more: Any) -> list[str]:
    ids_T, fed_TC = inputs()
    (folder / "model.safetensors").write_bytes(b"weights")
    return stamp(folder, **({"forward": forward, "input_ids": ids_T, "hidden_states": fed_TC, "declare": DECLARED} | more))


def test_the_file_stands_alone() -> None:
    text = SOURCE.read_text(encoding="utf-8")
    assert len(text.splitlines()) < 200
    imported = {
        n.module if isinstance(n, ast.ImportFrom) else a.name
        for n in ast.walk(ast.parse(text))
        if isinstance(n, ast.Import | ast.ImportFrom)
        for a in n.names
    }
    roots = {str(name).partition(".")[0] for name in imported}
    assert roots - set(sys.stdlib_module_names) == {"torch", "safetensors"}


def test_a_copy_runs_without_this_project(tmp_path: Path) -> None:
    (tmp_path / "contract_stamp.py").write_bytes(SOURCE.read_bytes())
    code = (
        "import sys; sys.path.insert(0, '.'); import contract_stamp\n"
        "import torch\n"
        "rows = dict(input_ids=torch.arange(6), hidden_states=torch.ones(6, 2))\n"
        "contract_stamp.stamp('.', forward=lambda i, h: [torch.zeros(len(i), 4)], declare={}, **rows)\n"
        "assert not [m for m in sys.modules if m.startswith(('contract.', 'eagle3_contract'))]"
    )
    subprocess.run([sys.executable, "-I", "-c", code], cwd=tmp_path, check=True, capture_output=True)
    assert (tmp_path / STAMP).exists()


def test_what_is_written_is_what_the_reader_and_the_golden_format_want(tmp_path: Path) -> None:
    open_fields = stamped(tmp_path, embedding=torch.nn.Embedding(96, 32))
    assert open_fields == [f for f in RECOMMENDED if f not in DECLARED]
    rows = read_golden(tmp_path, GOLDEN)
    assert rows.steps == 3
    assert [int(z.isfinite().all(1).sum()) for z in rows.logits_steps] == [T - 1, T - 2, T - 3]
    assert rows.embedding is not None
    assert set(rows.embedding) == set(rows.input_ids_T.tolist())
    found = read_stamp(tmp_path)
    assert found is not None
    assert {path: fact.value for path, fact in found.facts.items()} == DECLARED
    assert (found.golden, found.produced_by) == (GOLDEN, "trainer")
    assert [c.status for c in found.checks] == [Status.PASSED, Status.PASSED]


def test_golden_rows_lie_where_no_engine_loads_them(tmp_path: Path) -> None:
    stamped(tmp_path)
    assert sorted(p.name for p in tmp_path.glob("*.safetensors")) == ["model.safetensors"]


def test_rows_of_a_real_forward_pass(tmp_path: Path) -> None:
    """The drafter's own rows, T of them as a trainer with padding gives them, documents packed."""
    wiring = tiny()
    pair(wiring, ids=None).write(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    embedding_VH = torch.randn(96, 32)
    drafter = Drafter(wiring, MemorySource(tensors), target_source=MemorySource({"model.embed_tokens.weight": embedding_VH}))
    ids_T, fed_TC = inputs()
    documents_T = torch.tensor([0] * 5 + [1] * 6 + [-1])

    def own(ids_T: Tensor, fed_TC: Tensor) -> list[Tensor]:
        logits = teacher_forced(drafter, ids_T, fed_TC, document_ids_T=documents_T).logits_steps
        return [torch.cat([z.nan_to_num(7.0), torch.zeros(1, 24)])[None] for z in logits]

    stamped_rows = stamp(
        tmp_path,
        forward=own,
        input_ids=ids_T[None],
        hidden_states=fed_TC[None],
        declare={},
        embedding=embedding_VH,
        document_ids=documents_T,
    )
    assert stamped_rows == list(RECOMMENDED)
    rows = read_golden(tmp_path, GOLDEN)
    again = teacher_forced(drafter, rows.input_ids_T, rows.hidden_states_TC, document_ids_T=rows.document_ids_T).logits_steps
    for want, got in zip(rows.logits_steps, again, strict=True):
        assert torch.equal(want.isnan(), got.isnan())
        assert torch.equal(want.nan_to_num(), got.nan_to_num())


def test_own_argmax_rows_stay_alive(tmp_path: Path) -> None:
    stamped(tmp_path, declare={"training.rollout": "own_argmax"}, embedding=torch.randn(96, 32), fed_ids=torch.tensor([90, 91]))
    rows = read_golden(tmp_path, GOLDEN)
    assert [int(z.isfinite().all(1).sum()) for z in rows.logits_steps] == [T - 1] * 3
    assert rows.embedding is not None
    assert {90, 91} <= set(rows.embedding)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"input_ids": torch.arange(4), "hidden_states": torch.zeros(4, 3)}, "at least 5"),
        ({"hidden_states": torch.zeros(T - 1, 3)}, "as many of one"),
        ({"hidden_states": torch.zeros(T)}, "dimensions"),
        ({"forward": lambda i, h: []}, "no step"),
        ({"forward": lambda i, h: [torch.zeros(3, 4)]}, "are due"),
        ({"forward": lambda i, h: [torch.full((T, 4), float("nan"))]}, "NaN"),
        ({"declare": {"wiring.rope.theta": float("inf")}}, "JSON"),
    ],
)
def test_what_cannot_be_stamped_leaves_nothing(tmp_path: Path, more: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        stamped(tmp_path, **more)
    assert [p.name for p in tmp_path.iterdir()] == ["model.safetensors"]


def test_no_stamp(tmp_path: Path) -> None:
    assert read_stamp(tmp_path) is None


@pytest.mark.parametrize(
    ("declare", "said"),
    [
        ({"wiring.norm_before_residul": True}, "did you mean wiring.norm_before_residual"),
        ({"hidden_states.boundaries": [-1]}, "hidden_states.boundaries"),
        ({"wiring.feedback": "postnorm"}, "wiring.feedback"),
        ({"wiring.hidden_norm": 1}, "wiring.hidden_norm"),
        ({"drafter.files": {}}, "no field that a trainer declares"),
        ({"schema_version": 1}, "no field that a trainer declares"),
    ],
)
def test_declarations_are_typed_by_the_contract(tmp_path: Path, declare: dict[str, Any], said: str) -> None:
    stamped(tmp_path, declare=declare)
    with pytest.raises(InputRejected) as caught:
        read_stamp(tmp_path)
    assert caught.value.rule == "stamp.field"
    assert said in caught.value.message


def test_a_declaration_may_say_that_something_is_unknown(tmp_path: Path) -> None:
    stamped(
        tmp_path, declare={"wiring.window": {"unknown": "set by the launcher"}, "wiring.feedback": {"value": "pre_norm", "note": "line 7"}}
    )
    found = read_stamp(tmp_path)
    assert found is not None
    assert (found.facts["wiring.window"].known, found.facts["wiring.window"].reason) == (False, "set by the launcher")
    assert (found.facts["wiring.feedback"].value, found.facts["wiring.feedback"].note) == ("pre_norm", "line 7")


@pytest.mark.parametrize("edit", [{"format_version": 2}, {"surprise": 1}, {"declared": []}, {"golden": None}])
def test_a_stamp_of_another_form_is_refused(tmp_path: Path, edit: dict[str, Any]) -> None:
    stamped(tmp_path)
    path = tmp_path / STAMP
    path.write_text(json.dumps(json.loads(path.read_text()) | edit))
    with pytest.raises(InputRejected) as caught:
        read_stamp(tmp_path)
    assert caught.value.rule == "stamp.malformed"


def test_rows_and_weights_of_another_run_are_told(tmp_path: Path) -> None:
    stamped(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"trained further")
    (tmp_path / GOLDEN).write_bytes(b"other rows")
    found = read_stamp(tmp_path)
    assert found is not None
    assert found.golden is None
    assert [(c.rule, c.status) for c in found.checks] == [("stamp.golden", Status.FAILED), ("stamp.weights", Status.UNKNOWN)]


def test_golden_rows_stay_in_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "drafter"
    folder.mkdir()
    stamped(folder)
    path = folder / STAMP
    document = json.loads(path.read_text())
    document["golden"]["file"] = "../outside.safetensors"
    (tmp_path / "outside.safetensors").write_bytes((folder / GOLDEN).read_bytes())
    path.write_text(json.dumps(document))
    found = read_stamp(folder)
    assert found is not None
    assert found.golden is None
