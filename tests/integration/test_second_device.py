"""The second implementation of a device, in JavaScript and from the protocol's document alone: tests/outside/device."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from tests.meta.source_tree import ROOT

_DEVICE = ROOT / "tests/outside/device"
_OWN = re.compile(r"""node:[a-z_]+|\./[a-z]+\.js""")


def _node() -> str:
    program = shutil.which("node")
    if program is None:
        pytest.fail("the second device needs Node 18 or later: apt install nodejs")
    return program


@pytest.mark.processes
def test_it_passes_every_vector_of_its_roles() -> None:
    done = subprocess.run([_node(), _DEVICE / "vectors.js"], capture_output=True, text=True, timeout=60, check=False)
    assert not done.returncode, done.stderr + done.stdout
    passed, of = re.findall(r"(\d+) of (\d+) vectors passed", done.stdout)[0]
    assert passed == of
    assert int(passed) > 2_000


def test_it_shares_no_code_and_needs_no_package() -> None:
    required = [
        name
        for source in sorted(_DEVICE.glob("*.js"))
        for name in re.findall(r"""require\(['"]([^'"]*)['"]\)""", source.read_text(encoding="utf-8"))
    ]
    assert len(required) > 20
    assert not [name for name in required if not _OWN.fullmatch(name)]
