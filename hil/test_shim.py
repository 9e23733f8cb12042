"""`tweetnacl` as a library of its own: its page's example runs everywhere, and a board fetches it as the page says."""

from __future__ import annotations

import re
import shutil
import subprocess
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from hil.boards.drivers import UnixPort
from hil.boards.firmware_files import SHARED, board_modules

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hil.boards.drivers import Driver

SAID = "21.53 Cel\nvalve 3 open\nrefused\n"


def _example() -> str:
    (example,) = re.findall(r"```python\n(.*?)```", (SHARED / "README.md").read_text(), re.DOTALL)
    assert len([line for line in example.splitlines() if line]) <= 20
    return str(example)


def _shim() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in board_modules() if path.stem.startswith("tweetnacl")}


def test_the_example_of_its_page(board: Driver) -> None:
    if board.name == "microbit":
        pytest.skip("9.5 KB of heap hold single primitives only")
    program = "import sys\nsys.path.append('.')\nimport example\n"
    without_a_source = "import tweetnacl\nif tweetnacl._urandom is None:\n    tweetnacl.set_randombytes(bytes)\n"
    example = {"example.py": (without_a_source + _example()).encode()}
    assert board.run(program, {**_shim(), **example}) == SAID


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """Serve a copy of the library's folder; give it, and its address."""
    folder = tmp_path / "shared"
    shutil.copytree(SHARED, folder, ignore=shutil.ignore_patterns("__pycache__"))
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=folder))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield folder, f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_board_fetches_it_as_its_page_says(board: Driver, served: tuple[Path, str]) -> None:
    if not isinstance(board, UnixPort):
        pytest.skip(f"{board.name} has no sockets")
    folder, address = served
    (line,) = re.findall(r"^sed .*$", (SHARED / "README.md").read_text(), re.MULTILINE)
    command = line.replace("http://192.168.1.2:8000/", address)
    subprocess.run(["sh", "-c", command], cwd=folder, check=True)  # noqa: S603, S607 - of a page of ours
    program = f"import mip\nmip.install('{address}board.json', target='.')\n"
    program += "import sys\nsys.path.insert(0, '.')\nimport tweetnacl\nprint(len(tweetnacl.crypto_hash(b'')))\n"
    assert board.run(program).split()[-2:] == ["Done", "64"]
