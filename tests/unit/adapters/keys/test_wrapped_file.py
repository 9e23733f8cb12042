"""Credentials in files: wrapped where Covey wrote them, as they are where the owner did."""

from __future__ import annotations

from pathlib import Path

import pytest

from covey.adapters.keys.storage_key import StorageKey
from covey.adapters.keys.wrapped_file import is_wrapped, read_wrapped, write_wrapped
from tests.fleet import identity

_KEY = StorageKey.of(identity("ann"))


def test_a_credential_is_wrapped_for_its_device_and_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "relay.password"
    write_wrapped(path, b"p" * 1024, _KEY, path.name)
    assert path.stat().st_mode & 0o777 == 0o600
    assert b"p" * 12 not in path.read_bytes()
    assert is_wrapped(path, 1024)
    assert read_wrapped(path, 1024, _KEY, path.name) == b"p" * 1024
    assert capsys.readouterr().err == ""
    for key, name in ((StorageKey.of(identity("ben")), path.name), (_KEY, "b-8883/password")):
        assert read_wrapped(path, 1024, key, name) == b""
        said = capsys.readouterr().err
        assert f"{path} is damaged or another device's" in said
        assert said.count("\n") == 1


def test_a_damaged_file_gives_no_credential(tmp_path: Path) -> None:
    path = tmp_path / "relay.password"
    write_wrapped(path, b"of the relay", _KEY, path.name)
    content = path.read_bytes()
    begin = len(b"covey-wrapped-1 ")
    for place in range(begin, len(content) - 1):
        for damaged in (content[:place], content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]):
            path.write_bytes(damaged)
            assert read_wrapped(path, 1024, _KEY, path.name) == b"", place


def test_what_the_owner_wrote_is_taken_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "relay.password"
    path.touch(mode=0o600)
    path.write_text("of the owner\n")
    assert not is_wrapped(path, 1024)
    assert read_wrapped(path, 1024, _KEY, path.name) == b"of the owner\n"
