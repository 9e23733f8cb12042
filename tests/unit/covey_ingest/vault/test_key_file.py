"""Keys are read from a private file, and told apart by the clear header of what they open."""

from __future__ import annotations

from pathlib import Path

import pytest

from covey.core.ids import VaultId
from covey.core.vault.key_file import KeyFile
from covey.core.vault.keys import VaultKey
from covey.errors import ConfigurationError, DecryptionError
from covey_ingest.vault.key_file import read_key_file

KEY = VaultKey(VaultId(bytes(range(16))), bytes(range(32)))
NEWER = VaultKey(KEY.vault_id, bytes(32))


def _write(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a_key_file_comes_back(tmp_path: Path) -> None:
    ring = read_key_file(_write(tmp_path / "vault.key", KeyFile((KEY,)).to_text()))
    assert ring.vault_id == KEY.vault_id
    assert ring.for_object(b"HXSEG\x01" + KEY.key_id) == KEY


def test_several_keys_are_chosen_by_the_objects_header(tmp_path: Path) -> None:
    ring = read_key_file(_write(tmp_path / "vault.key", KeyFile((NEWER, KEY)).to_text()))
    assert ring.for_object(b"HXSEG\x01" + KEY.key_id) == KEY
    assert ring.for_object(b"HXMAN\x01" + NEWER.key_id) == NEWER
    with pytest.raises(DecryptionError):
        ring.for_object(b"HXMAN\x01")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_key_file_open_to_others_is_refused(tmp_path: Path, mode: int) -> None:
    path = _write(tmp_path / "vault.key", KeyFile((KEY,)).to_text(), mode)
    with pytest.raises(ConfigurationError, match="open to other users") as refused:
        read_key_file(path)
    assert refused.value.hint == f"chmod 600 {path}"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"vault_id": "00", "keys": []}',
        KeyFile((KEY,)).to_text().replace(KEY.key.hex(), "11" * 32),
        KeyFile((KEY,)).to_text().upper(),
        "[" * 60_000,
    ],
)
def test_a_malformed_key_file_is_refused_unshown(tmp_path: Path, text: str) -> None:
    path = _write(tmp_path / "vault.key", text)
    with pytest.raises(ConfigurationError, match="not a vault key file") as refused:
        read_key_file(path)
    assert KEY.key.hex() not in str(refused.value) + refused.value.hint


def test_a_missing_key_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read"):
        read_key_file(tmp_path / "vault.key")
