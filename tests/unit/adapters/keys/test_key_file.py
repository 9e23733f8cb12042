"""Secrets in real files. Refusals are by mode and owner, so that the tests mean the same under root."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from covey.adapters.keys.identity_file import read_noise
from covey.adapters.keys.key_file import copy_of, private_folder, read_secret, write_secret
from covey.adapters.state_folder import StateFolder
from covey.errors import ConfigurationError, StorageError

SECRET = bytes(range(64))


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_secret_comes_back_and_is_private(tmp_path: Path) -> None:
    path = tmp_path / "identity.key"
    write_secret(path, SECRET)
    assert read_secret(path, 64) == SECRET
    assert mode(path) == 0o600


def test_a_loose_umask_changes_nothing(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        write_secret(tmp_path / "identity.key", SECRET)
        private_folder(tmp_path / "state")
    finally:
        os.umask(old)
    assert mode(tmp_path / "identity.key") == 0o600
    assert mode(tmp_path / "state") == 0o700


def test_writing_replaces_whole_and_leaves_nothing_beside(tmp_path: Path) -> None:
    path = tmp_path / "identity.key"
    write_secret(path, SECRET)
    reader = path.open("rb")
    write_secret(path, b"new")
    with reader:
        assert reader.read() == SECRET  # the old file, untouched
    assert read_secret(path, 64) == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_writing_over_a_link_replaces_the_link(tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    target.write_bytes(b"kept")
    path = tmp_path / "identity.key"
    path.symlink_to(target)
    write_secret(path, SECRET)
    assert target.read_bytes() == b"kept"
    assert not path.is_symlink()
    assert read_secret(path, 64) == SECRET


@pytest.mark.parametrize("lax", [0o640, 0o604, 0o620, 0o601, 0o666])
def test_a_secret_open_to_others_is_refused_with_the_remedy(tmp_path: Path, lax: int) -> None:
    path = tmp_path / "my identity.key"
    write_secret(path, SECRET)
    path.chmod(lax)
    with pytest.raises(ConfigurationError) as refused:
        read_secret(path, 64)
    assert f"mode {lax:04o}" in str(refused.value)
    assert refused.value.hint == f"chmod 600 '{path}'"
    assert refused.value.exit_code == 78


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_secret_that_somebody_else_put_into_our_folder_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "identity.key"
    write_secret(path, SECRET)
    os.chown(path, 12345, -1)
    with pytest.raises(ConfigurationError, match="belongs to user #12345") as refused:
        read_secret(path, 64)
    assert refused.value.hint == f"sudo chown 0 {path}"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_secret_of_another_users_agent_keeps_its_owner(tmp_path: Path) -> None:
    """Taking the file from its agent would stop that agent."""
    folder = tmp_path / "theirs"
    folder.mkdir(0o700)
    path = folder / "identity.key"
    write_secret(path, SECRET)
    for each in (path, folder):
        os.chown(each, 12345, -1)
    with pytest.raises(ConfigurationError, match="belongs to user #12345") as refused:
        read_secret(path, 64)
    assert refused.value.hint == f"run the command as the user who owns {path}: sudo -u '#12345' covey …"
    with pytest.raises(ConfigurationError, match="belongs to user #12345") as refused:
        private_folder(folder)
    assert refused.value.hint == f"run the command as the user who owns {folder}: sudo -u '#12345' covey …"


def test_a_key_file_must_be_a_regular_file(tmp_path: Path) -> None:
    write_secret(tmp_path / "real", SECRET)
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe", 0o600)
    for name in ("link", "folder", "pipe"):
        with pytest.raises(ConfigurationError, match="is not a regular file"):
            read_secret(tmp_path / name, 64)


def test_missing_and_oversize_secrets_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="is missing") as refused:
        read_secret(tmp_path / "identity.key", 64)
    assert "name an existing file" in refused.value.hint  # it may be the certificate that somebody has named
    assert "covey init" in refused.value.hint
    write_secret(tmp_path / "identity.key", SECRET + b"x")
    with pytest.raises(ConfigurationError, match="longer than 64 bytes"):
        read_secret(tmp_path / "identity.key", 64)


def test_a_missing_folder_is_a_storage_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"cannot write .*identity\.key"):
        write_secret(tmp_path / "absent" / "identity.key", SECRET)


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    path = tmp_path / "identity.key"
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    for _ in range(3):
        write_secret(path, SECRET)
        read_secret(path, 64)
        with pytest.raises(ConfigurationError):
            read_secret(tmp_path, 64)
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


def test_private_folder_is_made_with_its_parents_and_accepted_again(tmp_path: Path) -> None:
    folder = tmp_path / "var" / "covey"
    private_folder(folder)
    private_folder(folder)
    assert mode(folder) == 0o700


def test_a_link_to_a_private_folder_will_do(tmp_path: Path) -> None:
    private_folder(tmp_path / "private")
    (tmp_path / "state").symlink_to("private")
    private_folder(tmp_path / "state")


def test_an_open_folder_is_refused_with_the_remedy(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    folder.mkdir()
    folder.chmod(0o755)
    with pytest.raises(ConfigurationError) as refused:
        private_folder(folder)
    assert refused.value.hint == f"chmod 700 {folder}"
    assert mode(folder) == 0o755


def test_a_file_in_the_folders_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state").write_bytes(b"")
    with pytest.raises(ConfigurationError, match="is not a folder"):
        private_folder(tmp_path / "state")
    with pytest.raises(StorageError, match="cannot make"):
        private_folder(tmp_path / "state" / "deeper")


def _folder(tmp_path: Path) -> StateFolder:
    folder = StateFolder.at(tmp_path / "state")
    folder.create({})
    return folder


@pytest.mark.parametrize("name", ["identity.key", "identity.key.copy", "noise.keys", "noise.keys.copy"])
def test_a_damaged_key_file_is_restored_from_its_copy(tmp_path: Path, name: str) -> None:
    folder = _folder(tmp_path)
    keys, path = folder.identity().keys, folder.path / name
    content = path.read_bytes()
    damaged = [content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :] for place in range(len(content))]
    for each in (*damaged, b"", content[:9], bytes(len(content)), bytes(8_192)):
        path.write_bytes(each)
        assert folder.identity().keys == keys
        assert path.read_bytes() == content
    path.unlink()
    assert folder.identity().keys == keys
    assert path.read_bytes() == content


def test_an_identity_damaged_in_both_copies_is_refused(tmp_path: Path) -> None:
    folder = _folder(tmp_path)
    for name in ("identity.key", "identity.key.copy"):
        (folder.path / name).write_bytes(bytes(35))
    with pytest.raises(ConfigurationError, match=r"identity\.key is damaged"):
        folder.identity()


def test_a_copy_is_no_way_around_a_mode_that_is_too_lax(tmp_path: Path) -> None:
    folder = _folder(tmp_path)
    (folder.path / "identity.key").chmod(0o644)
    with pytest.raises(ConfigurationError, match="open to other users"):
        folder.identity()


def test_a_key_that_was_put_in_place_of_another_counts(tmp_path: Path) -> None:
    one, other = _folder(tmp_path / "one"), _folder(tmp_path / "other")
    for name in ("identity.key", "noise.keys"):
        (one.path / name).write_bytes((other.path / name).read_bytes())
    assert one.identity().keys == other.identity().keys
    assert (one.path / "identity.key.copy").read_bytes() == (other.path / "identity.key").read_bytes()
    one.wipe()
    assert not [each for each in one.path.iterdir() if ".key" in each.name]


def test_a_key_that_another_process_draws_meanwhile_is_not_mended_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent starts, and reads its keys; `covey key rotate` draws a new one before the agent looks at the copies."""
    folder = StateFolder.at(tmp_path / "state")
    first = folder.create({})
    drawn: list[bytes] = []

    def beside(raw: bytes, where: Path, seed: bytes) -> object:
        if not drawn:
            other = StateFolder.at(folder.path)
            drawn.append(b"")
            identity = other.identity()
            other.noise_keys.rotate(identity, 1)
            drawn[0] = identity.noise_public
        return read_noise(raw, where, seed)

    monkeypatch.setattr("covey.adapters.state_folder.read_noise", beside)
    folder.identity()
    keys = folder.noise_keys.read(first.signing_seed)
    assert [each.public for each in keys] == [drawn[0], first.noise_public]
    assert folder.noise_keys.path.read_bytes() == copy_of(folder.noise_keys.path).read_bytes()
