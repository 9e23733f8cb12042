"""The SPIN models of docs/internals/models: each holds in every state, and SPIN finds each of its mistakes."""

from __future__ import annotations

import os
import shutil

import pytest

from docs.internals.models.__main__ import MODELS, Model, check, main
from tests.proof import begins

_CASES = [(model, each) for model in MODELS for each in (*model.holds, *model.mutants)]
_IS_HERE = shutil.which("spin") is not None and shutil.which("gcc") is not None


@pytest.mark.proof
@pytest.mark.skipif(not _IS_HERE and not os.environ.get("CI"), reason="no spin or gcc here")
@pytest.mark.parametrize(
    ("model", "definitions"), [pytest.param(*each, id=" ".join((each[0].name, *each[1]))) for each in _CASES]
)
def test_a_model_holds_and_its_mistakes_do_not(model: Model, definitions: tuple[str, ...]) -> None:
    begins()
    outcome = check(model, definitions)
    assert bool(outcome.violated) == (definitions in model.mutants)


def test_without_spin_the_command_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("docs.internals.models.__main__.shutil.which", lambda _: None)
    assert main([]) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: spin and gcc not found\nhint: apt-get install")
