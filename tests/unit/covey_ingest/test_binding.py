"""Tables, checkpoint and vaults find each other again, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from covey.core.ids import VaultId
from covey.errors import ConfigurationError
from covey_ingest.binding import Binding, bind

A, B, C = (VaultId(bytes([number] * 16)) for number in (1, 2, 3))


def _bind(folder: Path, *vaults: VaultId) -> Binding:
    return bind(folder / "tables", folder / "checkpoint", vaults)


def _read(folder: Path, name: str) -> dict[str, object]:
    found: dict[str, object] = json.loads((folder / name / "covey.json").read_bytes())
    return found


def test_the_same_vault_is_bound_once(tmp_path: Path) -> None:
    first = _bind(tmp_path, A)
    written = {"ingest": first.ingest, "vault_id": A.hex(), "vaults": [A.hex()], "layout": 1}
    assert _read(tmp_path, "tables") == _read(tmp_path, "checkpoint") == written
    assert _bind(tmp_path, A) == first


def test_vaults_join_and_the_first_stays_the_first(tmp_path: Path) -> None:
    first = _bind(tmp_path, A)
    joined = _bind(tmp_path, B, A)
    assert (joined.ingest, joined.home, joined.vaults) == (first.ingest, A.hex(), (A.hex(), B.hex()))
    assert _read(tmp_path, "tables") == _read(tmp_path, "checkpoint")
    assert _read(tmp_path, "tables")["vaults"] == [A.hex(), B.hex()]
    assert _bind(tmp_path, B) == joined
    with pytest.raises(ConfigurationError, match="another checkpoint or vault"):
        _bind(tmp_path, C)
    assert _bind(tmp_path, C, B).vaults == (A.hex(), B.hex(), C.hex())


def test_a_kill_between_the_two_files_does_no_harm(tmp_path: Path) -> None:
    _bind(tmp_path, A)
    before = (tmp_path / "tables" / "covey.json").read_bytes()
    joined = _bind(tmp_path, A, B)
    (tmp_path / "tables" / "covey.json").write_bytes(before)
    assert _bind(tmp_path, B) == joined
    (tmp_path / "tables" / "covey.json").unlink()
    assert _bind(tmp_path, B) == joined


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"{", "damaged"),
        (b"[]", "damaged"),
        (b'{"ingest": "x"}', "damaged"),
        (b'{"ingest": "x", "vault_id": "y", "vaults": ["y"]}', "damaged"),
        (b'{"ingest": "x", "vault_id": "y", "vaults": ["y"], "layout": 2}', "newer Covey"),
    ],
)
def test_what_cannot_be_read_binds_nothing(tmp_path: Path, content: bytes, match: str) -> None:
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "covey.json").write_bytes(content)
    with pytest.raises(ConfigurationError, match=match):
        _bind(tmp_path, A)
    assert not (tmp_path / "checkpoint").exists()
