"""What an error advises is something that the command has."""

from __future__ import annotations

from pathlib import Path

import pytest
from factory import pair

from contract.cli.draft import command as draft
from contract.cli.init import command as init
from contract.errors import ToolError, UserError
from eagle3_contract.engines.run import check_engine
from eagle3_contract.model.load_view import load_view
from eagle3_contract.trainers.generic import GENERIC
from eagle3_contract.trainers.reading import TargetFacts


def test_an_engine_that_nobody_knows_is_not_to_be_imitated() -> None:
    with pytest.raises(ToolError) as raised:
        check_engine("nope")
    assert "nope" not in raised.value.fix
    assert "transformers" in raised.value.fix
    with pytest.raises(ToolError) as raised:
        check_engine("lmdeploy")
    assert "--imitate lmdeploy" in raised.value.fix, "its reading is known, and can be imitated"
    check_engine("transformers")


def test_draft_names_the_command_that_has_the_option(tmp_path: Path) -> None:
    """A trainer that is known by name only leaves its wiring open."""
    pair().write(tmp_path)
    view = load_view(tmp_path)
    with pytest.raises(UserError) as raised:
        GENERIC.wiring(view, TargetFacts()).resolve()
    assert raised.value.rule == "trainers.wiring-unknown"
    assert "`contract init DRAFTER --set " in raised.value.fix
    assert "(`--spec`)" in raised.value.fix
    options = {name for command in (init, draft) for p in command.params for name in p.opts}
    assert {"--set", "--spec"} <= options
    assert "--set" not in {name for p in draft.params for name in p.opts}
