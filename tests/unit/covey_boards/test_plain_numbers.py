"""Numbers in the place of constants' names: the same program, with fewer names on a board's heap."""

from __future__ import annotations

import ast
import re

import pytest

from covey_boards.flash import firmware
from covey_boards.plain_numbers import with_numbers
from hil.boards.firmware_files import sources

FILES = {
    "shop.py": "from micropython import const\nOPEN, SHUT = 1, 0x10  # states\nPRICE = const(7)\nKINDS = {OPEN: 'ö'}\n"
    "TAKEN = 3\nNAME = 'x'\nMOVED = 4\nMOVED = 5\n\n\n"
    "def sold(state):\n    return 'ö', state == SHUT, PRICE, NAME, MOVED\n",
    "visit.py": "import shop\nfrom shop import TAKEN\nOPEN = 8\n\n\ndef visit(other):\n"
    "    return 'ö', shop.OPEN, shop.PRICE, other.SHUT, shop.NAME, OPEN, TAKEN\n",
}


def test_a_constant_is_replaced_by_its_number_and_its_definition_is_removed() -> None:
    plain = with_numbers(FILES)
    assert plain["shop.py"].splitlines()[1:5] == ["pass  # states", "pass", "KINDS = {1: 'ö'}", "TAKEN = 3"]
    assert "return 'ö', state == 16, 7, NAME, MOVED" in plain["shop.py"], "no number, or not the same one always"
    assert "return 'ö', 1, 7, other.SHUT, shop.NAME, 8, TAKEN" in plain["visit.py"]


def _run(files: dict[str, str]) -> object:
    """Return what the second file says of its first one's values."""
    shop: dict[str, object] = {}
    exec(files["shop.py"].replace("from micropython import const", "const = int"), shop)
    visit: dict[str, object] = {"shop": type("Shop", (), shop), "TAKEN": 3}
    exec(files["visit.py"].replace("import shop\nfrom shop import TAKEN\n", ""), visit)
    return visit["visit"](type("Other", (), {"SHUT": 2})), shop["sold"](16)  # type: ignore[operator]


def test_the_files_say_the_same() -> None:
    assert _run(with_numbers(FILES)) == _run(FILES)


@pytest.mark.slow
def test_every_line_of_the_firmware_stays_where_it_was() -> None:
    long = {name: source.decode() for name, source in sources().items()}
    for name, source in with_numbers(long).items():
        assert source.count("\n") == long[name].count("\n"), name
        ast.parse(source)


@pytest.mark.slow
def test_no_file_of_the_firmware_asks_for_a_constant_that_has_gone() -> None:
    """Whoever writes `FILE.NAME` of one with numbers in it means a number, or what is there."""
    trees = {name[:-3]: ast.parse(source) for name, source in firmware().items()}
    there = {name: {each.id for each in ast.walk(tree) if isinstance(each, ast.Name)} for name, tree in trees.items()}
    for name, tree in trees.items():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
                continue
            if re.fullmatch("[A-Z][A-Z_]*", node.attr):
                assert node.value.id not in trees or node.attr in there[node.value.id], (name, node.attr)
