"""`vault.key`: damage shows, and a device's own file is restored from its second copy."""

from __future__ import annotations

import random
import secrets
from pathlib import Path
from typing import Any

import pytest

from covey.adapters.keys.key_file import copy_of
from covey.adapters.keys.vault_key_file import VaultKeyFile
from covey.core.vault.key_file import KeyFile
from covey.errors import ConfigurationError
from tests.vectors import vectors


def _file(folder: Path) -> VaultKeyFile:
    file = VaultKeyFile(folder / "vault.key", has_copy=True)
    file.draw(1)
    return file


@pytest.mark.parametrize("vector", vectors("key_files", "vault_keys"))
def test_vault_key_vectors(vector: dict[str, Any]) -> None:
    if vector["code"] is None:
        assert KeyFile.parse(vector["text"]).to_text() == vector["text"]
        return
    with pytest.raises(ConfigurationError) as caught:
        KeyFile.parse(vector["text"])
    assert caught.value.code == vector["code"]


@pytest.mark.parametrize("victim", ["vault.key", "vault.key.copy"])
@pytest.mark.parametrize("seed", range(20))
def test_a_damaged_file_is_restored_from_the_other(tmp_path: Path, victim: str, seed: int) -> None:
    file = _file(tmp_path)
    sound, path, chance = file.read(), tmp_path / victim, random.Random(seed)
    damaged = bytearray(path.read_bytes())
    if chance.random() < 0.3:
        del damaged[chance.randrange(len(damaged)) :]
    else:
        damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
    path.write_bytes(damaged)
    assert file.read() == sound
    assert file.path.read_bytes() == copy_of(file.path).read_bytes() == sound.to_text().encode()


@pytest.mark.parametrize("victim", ["vault.key", "vault.key.copy"])
def test_a_missing_file_is_restored_and_no_new_key_drawn(tmp_path: Path, victim: str) -> None:
    file = _file(tmp_path)
    sound = file.read()
    (tmp_path / victim).unlink()
    file.draw(2)
    assert file.read() == sound
    assert file.path.read_bytes() == copy_of(file.path).read_bytes()


def test_of_two_processes_that_draw_a_first_key_one_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[bytes] = []
    draws = secrets.token_bytes

    def beside(length: int) -> bytes:
        if not drawn:
            drawn.append(b"")
            drawn[0] = _file(tmp_path).path.read_bytes()
        return draws(length)

    monkeypatch.setattr(secrets, "token_bytes", beside)
    file = _file(tmp_path)
    assert file.path.read_bytes() == copy_of(file.path).read_bytes() == drawn[0]


def test_a_key_file_that_a_person_put_there_replaces_the_copy(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    file, other = _file(tmp_path), _file(tmp_path / "other")
    file.path.write_bytes(other.path.read_bytes())
    assert file.read() == other.read()
    assert copy_of(file.path).read_bytes() == other.path.read_bytes()


def test_a_copy_for_a_reader_has_no_second_one(tmp_path: Path) -> None:
    (tmp_path / "reader").mkdir()
    VaultKeyFile(tmp_path / "reader" / "vault.key").write(_file(tmp_path).read())
    assert [each.name for each in (tmp_path / "reader").iterdir()] == ["vault.key"]


def test_two_damaged_files_are_refused(tmp_path: Path) -> None:
    file = _file(tmp_path)
    for path in (file.path, copy_of(file.path)):
        path.write_text(path.read_text().replace('"since_us": 1', '"since_us": 2'))
    with pytest.raises(ConfigurationError, match="or damaged"):
        file.read()
