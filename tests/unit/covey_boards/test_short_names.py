"""Short private names: the same program, and far fewer names on a board's heap."""

from __future__ import annotations

import ast
import io
import re
import tokenize

from covey_boards.flash import firmware
from covey_boards.short_names import shortened
from hil.firmware_files import sources

FILES = {
    "store.py": "import _port\n_LIMIT = 3\n_full = '_full'  # _full\n\n\nclass Store:\n"
    "    def __init__(self, _place):\n        self._place = _place\n        self._shared = _port.thing\n",
    "shop.py": "import store\n_price = 2\n\n\ndef shown(place):\n    return place._shared + _price\n",
}


def _names(source: str) -> set[str]:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {token.string for token in tokens if token.type == tokenize.NAME and re.match("_[a-zA-Z]", token.string)}


def test_a_name_of_two_files_is_the_same_in_both_and_others_share_theirs() -> None:
    short = shortened(FILES)
    (shared,) = _names(short["store.py"]) & _names(short["shop.py"]) - {"_b"}
    assert f"place.{shared} + _b" in short["shop.py"]
    assert f"self.{shared} = _port." in short["store.py"]
    assert "_b = 3" in short["store.py"], "a name of one file alone is short in each of them"
    assert "= '_full'  # _full" in short["store.py"], "texts and comments stay"
    assert "import _port" in short["store.py"], "the port has named it"


def test_nothing_but_names_changes() -> None:
    long = {name: source.decode() for name, source in sources().items()}
    for name, source in shortened(long).items():
        assert len(source.splitlines()) == len(long[name].splitlines())
        assert ast.dump(ast.parse(re.sub(r"\b_[a-zA-Z]\w*", "_", source))) == ast.dump(
            ast.parse(re.sub(r"\b_[a-zA-Z]\w*", "_", long[name]))
        )


def test_different_names_of_a_file_stay_different() -> None:
    long = {name: source.decode() for name, source in sources().items()}
    for name, source in shortened(long).items():
        assert len(_names(source)) == len(_names(long[name])), name


def test_the_firmware_has_few_private_names() -> None:
    """The whole of it has some 650 names; with the 621st MicroPython's table of them doubles."""
    assert len({each for source in firmware().values() for each in _names(source.decode())}) < 120


def test_no_class_of_the_firmware_inherits_from_one_of_another_file() -> None:
    """Or private names of the two could be the same."""
    for name, source in sources().items():
        tree = ast.parse(source)
        own = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
        bases = {ast.unparse(base) for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for base in node.bases}
        assert bases <= own | {"ValueError", "Exception"}, name
