"""`covey.app.loop.member_accounts`: a broker restored from a backup lets members in that joined after it."""

from __future__ import annotations

from pathlib import Path

import pytest

from covey.adapters.broker.authority import PasswordAuthority
from covey.adapters.broker.mosquitto_passwords import device_accounts, draw_enrolment_password, hash_password
from covey.app.loop.member_accounts import MemberAccounts
from covey.errors import ConfigurationError
from tests.fleet import Device, carry, found


class _Hub:
    """A device with authority over a broker, and what it says."""

    def __init__(self, folder: Path) -> None:
        self.device, self.gate = Device("hub", folder), Device("gate", folder)
        self.broker = folder / "broker"
        self.broker.mkdir()
        self.authority = PasswordAuthority(self.broker / "passwords")
        self.authority.share(draw_enrolment_password())
        self.said: list[str] = []
        self.restart()

    def restart(self) -> None:
        """Begin another process."""
        self.role = MemberAccounts(self.authority.reinstate, lambda _level, line: self.said.append(line))

    def turn(self) -> None:
        """Let its loop turn."""
        self.role.turn(self.device.node, self.device.now)

    def backup(self) -> dict[Path, bytes]:
        """Return the broker's files."""
        return {each: each.read_bytes() for each in self.broker.iterdir() if each.is_file()}

    def restore(self, files: dict[Path, bytes]) -> None:
        """Put them back."""
        for each in self.broker.iterdir():
            each.unlink()
        for path, content in files.items():
            path.write_bytes(content)
        self.restart()

    def lets_in(self, user_name: str, password: str) -> bool:
        """Say whether the broker would."""
        import base64
        import hashlib

        lines = dict(line.split(":", 1) for line in (self.broker / "passwords").read_text().splitlines())
        if user_name not in lines:
            return False
        _, _, rounds, salt, digest = lines[user_name].split("$")
        found = hashlib.pbkdf2_hmac("sha512", password.encode(), base64.b64decode(salt), int(rounds))
        return found == base64.b64decode(digest)


@pytest.fixture
def hub(tmp_path: Path) -> _Hub:
    return _Hub(tmp_path)


def test_who_joined_after_the_backup_signs_in_with_its_password(hub: _Hub) -> None:
    kept = hub.backup()
    name = hub.gate.key.hex()
    password = hub.authority.mint(name)
    assert hub.lets_in(name, password)
    hub.restore(kept)
    assert not hub.lets_in(name, password)
    found(hub.device, hub.gate)
    carry(hub.device, hub.gate)
    hub.turn()
    assert hub.lets_in(name, password)
    assert any("no relay account" in line for line in hub.said)
    said = len(hub.said)
    hub.turn()
    assert len(hub.said) == said


def test_an_account_that_was_removed_stays_removed_and_its_password_never_counts_again(hub: _Hub) -> None:
    found(hub.device, hub.gate)
    name = hub.gate.key.hex()
    stolen = hub.authority.mint(name)
    assert hub.authority.remove(name)
    hub.restart()
    hub.turn()
    assert name not in device_accounts(hub.broker / "passwords")
    renewed = hub.authority.mint(name)
    assert renewed != stolen
    assert hub.lets_in(name, renewed)
    assert not hub.lets_in(name, stolen)
    assert hub.authority.mint(name) not in {renewed, stolen}


def test_the_files_hold_no_password_and_what_others_wrote_stays(hub: _Hub) -> None:
    file = hub.broker / "passwords"
    file.write_text(f"# by hand\nsomebody:{hash_password('theirs')}\n")
    password = hub.authority.mint("ab" * 32)
    assert file.read_text().startswith("# by hand\nsomebody:$7$")
    assert password not in "".join(each.read_text() for each in hub.broker.iterdir() if each.is_file())
    assert (hub.broker / "passwords.secret").stat().st_mode & 0o077 == 0


def test_a_password_file_that_cannot_be_changed_is_reported_and_stops_nothing(hub: _Hub) -> None:
    hub.broker.rename(hub.broker.with_name("away"))
    hub.turn()
    assert len(hub.said) == 1
    assert "cannot be checked" in hub.said[0]


def test_the_secret_behind_passwords_is_for_those_alone_that_may_change_them(tmp_path: Path) -> None:
    passwords = tmp_path / "passwords"
    passwords.touch()
    passwords.chmod(0o644)  # as a careless administrator leaves it: it holds only hashes
    PasswordAuthority(passwords).share("beetroot")
    beside = [each for each in tmp_path.iterdir() if each.suffix in {".secret", ".enrolment"}]
    assert [each.stat().st_mode & 0o777 for each in beside] == [0o640, 0o640]


@pytest.mark.parametrize("content", [b"", b"3f"], ids=["emptied", "cut"])
def test_no_password_follows_from_a_damaged_secret(tmp_path: Path, content: bytes) -> None:
    hub = _Hub(tmp_path)
    (hub.broker / "passwords.secret").write_bytes(content)
    with pytest.raises(ConfigurationError, match="is damaged"):
        hub.authority.reinstate(["ab" * 32])
    assert device_accounts(hub.broker / "passwords") == set()
