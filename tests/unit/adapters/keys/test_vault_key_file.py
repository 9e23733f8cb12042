"""`vault.key`: damage shows; a device's own file is wrapped, and restored from its second copy."""

from __future__ import annotations

import random
import secrets
from pathlib import Path
from typing import Any

import pytest

from covey.adapters.keys.identity_file import plain_file, sealed_file
from covey.adapters.keys.key_file import copy_of, write_secret, write_secret_twice
from covey.adapters.keys.storage_key import StorageKey
from covey.adapters.keys.vault_key_file import VaultKeyFile, read_vault_keys
from covey.core.vault.key_file import KeyFile
from covey.errors import ConfigurationError
from tests.vectors import vectors

_SEED = bytes(range(32))


def _storage_key() -> StorageKey:
    return StorageKey(_SEED)


def _file(folder: Path) -> VaultKeyFile:
    file = VaultKeyFile(folder / "vault.key", _storage_key)
    file.draw(1)
    return file


def _assert_twice(file: VaultKeyFile, content: KeyFile) -> None:
    """Assert that the file and its copy each say it."""
    for path in (file.path, copy_of(file.path)):
        alone = path.with_name("alone") / "vault.key"
        alone.parent.mkdir(exist_ok=True)
        write_secret(alone, path.read_bytes())
        assert VaultKeyFile(alone, _storage_key).read() == content
        copy_of(alone).unlink()


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
    _assert_twice(file, sound)


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


def test_a_key_file_that_a_person_put_there_replaces_the_copy_and_is_wrapped(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    file, other = _file(tmp_path), _file(tmp_path / "other").read()
    file.path.write_text(other.to_text())
    assert file.read() == other
    assert file.path.read_bytes() == copy_of(file.path).read_bytes() != other.to_text().encode()
    assert file.read() == other


def test_what_another_process_wrote_meanwhile_is_not_undone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other").mkdir()
    file, other = _file(tmp_path), _file(tmp_path / "other").read()
    file.path.write_text(other.to_text())
    newer = KeyFile((*_file(tmp_path / "other").read().keys, *file.read().keys[1:]), readers=())
    parse = KeyFile.parse

    def beside(text: str) -> KeyFile:
        monkeypatch.setattr(KeyFile, "parse", parse)
        file.write(newer)
        return parse(text)

    file.path.write_text(other.to_text())
    monkeypatch.setattr(KeyFile, "parse", beside)
    assert file.read() == other
    _assert_twice(file, newer)


def test_the_own_file_shows_no_key_and_opens_for_its_device_alone(tmp_path: Path) -> None:
    file = _file(tmp_path)
    key = file.read().newest.key
    for path in (file.path, copy_of(file.path)):
        assert key not in path.read_bytes()
        assert key.hex().encode() not in path.read_bytes()
    with pytest.raises(ConfigurationError, match="another device's") as caught:
        VaultKeyFile(file.path, lambda: StorageKey(bytes(32))).read()
    assert "covey vault export-key FILE" in caught.value.hint
    with pytest.raises(ConfigurationError, match="its own device alone"):
        VaultKeyFile(file.path).read()


def test_a_program_of_the_devices_user_opens_it_by_the_devices_key(tmp_path: Path) -> None:
    content = _file(tmp_path).read()
    write_secret_twice(tmp_path / "identity.key", plain_file(_SEED))
    assert read_vault_keys(tmp_path / "vault.key") == content
    (tmp_path / "identity.key").write_bytes(plain_file(bytes(32)))  # as a disk might damage it: the copy opens
    assert read_vault_keys(tmp_path / "vault.key") == content
    copy = tmp_path / "copy.key"
    VaultKeyFile(copy).write(content.copy())
    assert read_vault_keys(copy) == content.copy()
    (tmp_path / "identity.key").unlink()
    (tmp_path / "identity.key.copy").unlink()
    with pytest.raises(ConfigurationError, match=r"identity\.key is missing"):
        read_vault_keys(tmp_path / "vault.key")


def test_a_program_is_refused_where_the_devices_key_needs_a_person(tmp_path: Path) -> None:
    _file(tmp_path)
    write_secret(tmp_path / "identity.key", sealed_file(_SEED, b"correct horse", 2, 19 * 1024))
    with pytest.raises(ConfigurationError, match="needs a passphrase or PIN") as caught:
        read_vault_keys(tmp_path / "vault.key")
    assert "covey vault export-key FILE" in caught.value.hint


def test_a_copy_for_a_reader_has_no_second_one(tmp_path: Path) -> None:
    (tmp_path / "reader").mkdir()
    VaultKeyFile(tmp_path / "reader" / "vault.key").write(_file(tmp_path).read())
    assert [each.name for each in (tmp_path / "reader").iterdir()] == ["vault.key"]


def test_two_damaged_files_are_refused(tmp_path: Path) -> None:
    file = _file(tmp_path)
    for path in (file.path, copy_of(file.path)):
        path.write_bytes(path.read_bytes()[:40] + b"AAAA" + path.read_bytes()[44:])
    with pytest.raises(ConfigurationError, match="is damaged, or another"):
        file.read()
