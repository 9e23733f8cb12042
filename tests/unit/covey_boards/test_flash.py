"""What `mip` would install is what the firmware, or the shim alone, imports: no more and no less."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from covey_boards.flash import firmware
from hil.boards.firmware_files import DEVICE, SHARED, board_modules, device_modules


def _listed(folder: Path) -> dict[str, Path]:
    package = json.loads((folder / "package.json").read_text())
    assert package["deps"] == []
    return {name: (folder / place).resolve() for name, place in package["urls"]}


def _imported(path: Path, known: set[str]) -> set[str]:
    """Return the modules of ours that a file names: in an import, or as a word that it loads a module by."""
    tree = ast.parse(path.read_text())
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and not node.level}
    names |= {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return names & known


def _closure(*start: str) -> set[str]:
    modules = {path.stem: path for path in (*board_modules(), *device_modules(), DEVICE / "main.py")}
    found, waiting = set(), list(start)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += _imported(modules[name], set(modules))
    return {f"{name}.py" for name in found}


@pytest.mark.slow
def test_the_firmware_is_listed_whole() -> None:
    listed = _listed(DEVICE)
    drivers = [path.stem for path in DEVICE.glob("driver_*.py")]  # a board's settings name them
    assert listed.keys() == _closure("main", *drivers)
    assert listed.keys() == firmware().keys(), "what `covey mcu flash` writes"
    assert all(path.is_file() and path.name == name for name, path in listed.items())


def test_the_shim_alone_is_listed_whole() -> None:
    listed = _listed(SHARED)
    assert listed.keys() == _closure("tweetnacl")
    assert all(path.is_file() and path.parent == SHARED for path in listed.values())
