"""What files for some alone are opened by: each offer has its own, beside the file."""

from __future__ import annotations

from pathlib import Path

from covey.adapters.content_files import ContentFiles
from covey.adapters.content_secrets import kept_secret, save_secret
from covey.core.ids import ContentHash, OperationId

_CONTENT, _OTHER = ContentHash(b"c" * 32), ContentHash(b"o" * 32)
_OFFER, _RIVAL = OperationId(b"1" * 32), OperationId(b"2" * 32)


def test_an_offer_of_the_same_bytes_keeps_the_first_secret(tmp_path: Path) -> None:
    files = ContentFiles(tmp_path / "content")
    with files.locked():
        save_secret(files, _CONTENT, _OFFER, b"s" * 32)
        save_secret(files, _CONTENT, _RIVAL, b"hostile".ljust(32))
    assert kept_secret(files, _CONTENT, _OFFER) == b"s" * 32
    assert kept_secret(files, _OTHER, _OFFER) is None
    assert {each.stat().st_mode & 0o777 for each in (tmp_path / "content").iterdir()} == {0o600}


def test_secrets_go_with_their_file(tmp_path: Path) -> None:
    files = ContentFiles(tmp_path / "content")
    with files.locked():
        for content in (_CONTENT, _OTHER):
            for offer in (_OFFER, _RIVAL):
                save_secret(files, content, offer, b"s" * 32)
    files.remove(_CONTENT)
    assert kept_secret(files, _CONTENT, _OFFER) is kept_secret(files, _CONTENT, _RIVAL) is None
    assert kept_secret(files, _OTHER, _OFFER) == b"s" * 32
    with files.locked():
        files.remove_others(set())
    assert [*(tmp_path / "content").iterdir()] == []
