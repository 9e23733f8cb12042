"""Short private names: the same program, and far fewer names on a board's heap."""

from __future__ import annotations

import ast
import io
import re
import tokenize

import pytest

from covey_boards import short_names
from covey_boards.flash import firmware
from covey_boards.short_names import shortened
from hil.boards.firmware_files import sources

FILES = {
    "store.py": "import _port\n_LIMIT = const(3)\n_full = '_full'  # _full\n\n\nclass Store:\n"
    "    def __init__(self, _place):\n        self._place = _place\n        self._shared = _port.thing\n",
    "shop.py": "import store\n_price = 2\n\n\ndef shown(place):\n    return place._shared + _price\n",
}


def _names(source: str) -> set[str]:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {token.string for token in tokens if token.type == tokenize.NAME and re.match("_[a-zA-Z]", token.string)}


def test_a_name_of_two_files_is_the_same_in_both_and_others_share_theirs() -> None:
    short = shortened(FILES)
    assert ".abs + all\n" in short["shop.py"], "words that every port has cost a board nothing"
    assert "self.abs = _port." in short["store.py"]
    assert "all = '_full'" in short["store.py"], "a name of one file alone is short in each of them"
    assert "_a = const(3)" in short["store.py"], "what begins otherwise is not compiled away"
    assert "= '_full'  # _full" in short["store.py"], "texts and comments stay"
    assert "import _port" in short["store.py"], "the port has named it"


def _renamings(long: str, short: str) -> set[tuple[str, str]]:
    """Return which name stands where which stood; all else has to be the same."""
    pairs = set()
    tokens = [tokenize.generate_tokens(io.StringIO(source).readline) for source in (long, short)]
    for before, after in zip(*tokens, strict=True):
        assert (before.type, before.start[0]) == (after.type, after.start[0])
        if before.type == tokenize.NAME:
            pairs.add((before.string, after.string))
        else:
            assert before.string == after.string
    return pairs


@pytest.mark.slow
def test_nothing_but_names_changes_and_different_names_of_a_file_stay_different() -> None:
    long = {name: source.decode() for name, source in sources().items()}
    for name, source in shortened(long).items():
        pairs = _renamings(long[name], source)
        assert len(pairs) == len(dict(pairs)) == len({after for _, after in pairs}), name
        short = re.compile("_[a-zA-Z]{1,2}|" + "|".join(short_names._WORDS))
        assert all(after == before or short.fullmatch(after) for before, after in pairs), name


PARAMETERS = {
    "shop.py": "import store\n\n\nclass Shop:\n    def __init__(self, shelf):\n        self.place = shelf\n\n"
    "    def sold(self, goods, price=0):\n        return [each for each in goods if store.cost(each, extra=price)]\n\n"
    "    def _moved(self, place, goods, many=2):\n        return place, goods, many\n",
    "store.py": "from goods import price\n\n\ndef cost(goods, extra, shop):\n    return goods.shop + extra\n",
}


def test_a_parameter_is_short_where_nothing_else_can_mean_it() -> None:
    short = shortened(PARAMETERS)
    assert ("goods", "all") in _renamings(PARAMETERS["shop.py"], short["shop.py"])
    assert ("many", "any") in _renamings(PARAMETERS["shop.py"], short["shop.py"]), "a private function's default"
    for kept, why in (("shelf", "a constructor's"), ("price", "a default"), ("place", "an attribute, too")):
        assert (kept, kept) in _renamings(PARAMETERS["shop.py"], short["shop.py"]), why
    assert ("extra", "extra") in _renamings(PARAMETERS["store.py"], short["store.py"]), "a call names it"
    for kept, why in (("shop", "an attribute, too"), ("goods", "a module, too")):
        assert (kept, kept) in _renamings(PARAMETERS["store.py"], short["store.py"]), why


@pytest.mark.slow
def test_the_firmware_has_few_private_names() -> None:
    """Constants, which are compiled away, and few others."""
    assert len({each for source in firmware().values() for each in _names(source.decode())}) < 100


@pytest.mark.slow
def test_no_class_of_the_firmware_inherits_from_one_of_another_file() -> None:
    """Or private names of the two could be the same."""
    for name, source in sources().items():
        tree = ast.parse(source)
        own = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
        bases = {ast.unparse(base) for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for base in node.bases}
        assert bases <= own | {"ValueError", "Exception"}, name
