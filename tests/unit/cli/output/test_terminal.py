"""`covey.cli.output.terminal`: what other members wrote has no effect of its own on a terminal; Ctrl-C is explained."""

from __future__ import annotations

import json

import pytest

from covey.cli.output.terminal import explained_interruption, print_fields, print_json, print_table

_HOSTILE = "gate\x1b[2Jway\x9b31m\u202eevil\u2066\x7f\n\r\tend\u2028"


def test_tables_and_fields_have_no_control_or_bidi_characters(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["device", "label"], [["one", _HOSTILE], ["two", None]])
    print_fields({"label": _HOSTILE})
    printed = capsys.readouterr().out
    assert printed.count("\n") == 4
    assert printed.replace("\n", "").isprintable()
    assert "gate" in printed
    assert "end" in printed


def test_a_document_says_the_same_and_moves_no_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    value = {"label": _HOSTILE, "umlauts": "Küche 客厅", "astral": "\U000e0001 \U0001f600"}
    print_json(value)
    printed = capsys.readouterr().out
    assert printed.removesuffix("\n").isprintable()
    assert "Küche 客厅" in printed
    assert json.loads(printed) == value


def test_an_interruption_reports_what_remains_and_the_command_ends(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt), explained_interruption(lambda: "half of it stays here"):
        raise KeyboardInterrupt
    assert capsys.readouterr() == ("", "interrupted: half of it stays here\n")


def test_only_an_interruption_prints_progress(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(OSError, match="gone"), explained_interruption(lambda: "half"):
        raise OSError("gone")
    with explained_interruption(lambda: "half"):
        pass
    assert capsys.readouterr() == ("", "")
