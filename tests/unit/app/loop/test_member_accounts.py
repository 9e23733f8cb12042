"""`covey.app.loop.member_accounts`: a broker restored from a backup lets members in that joined after it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from covey.adapters.broker.authority import PasswordAuthority
from covey.adapters.broker.fleet_ca import FleetCa
from covey.adapters.broker.mosquitto_passwords import device_accounts, draw_enrolment_password, hash_password
from covey.app.loop.member_accounts import MemberAccounts
from covey.core.group.manifest import Member
from covey.core.ids import inbox_name
from covey.errors import ConfigurationError
from covey.limits.broker import REMOVED_ACCOUNT_US
from tests.fleet import Device, carry, found
from tests.stolen import remove


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
        self.role = MemberAccounts(
            lambda: self.authority, self.device.store, lambda _level, line: self.said.append(line)
        )

    def turn(self) -> None:
        """Let its loop turn."""
        self.role.turn(self.device.node, self.device.now)

    def turn_while_busy(self) -> None:
        """Let its loop turn until the role waits for time to pass, or for nothing."""
        while self.role.turn(self.device.node, self.device.now) == self.device.now.monotonic_us:
            pass

    def turn_until_idle(self) -> None:
        """Let its loop turn until the role has nothing to do."""
        while self.role.turn(self.device.node, self.device.now) is not None:
            self.device.wait(REMOVED_ACCOUNT_US / 1e6)

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


def test_a_device_that_joined_after_the_backup_signs_in_with_its_password(hub: _Hub) -> None:
    kept = hub.backup()
    name = inbox_name(hub.gate.key)
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
    name = inbox_name(hub.gate.key)
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
    password = hub.authority.mint("ab" * 16)
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
        hub.authority.reinstate(["ab" * 16])
    assert device_accounts(hub.broker / "passwords") == set()


def test_an_account_that_came_back_with_a_backup_goes_again_with_its_member(hub: _Hub) -> None:
    group_id = found(hub.device, hub.gate)
    name = inbox_name(hub.gate.key)
    stolen = hub.authority.mint(name)
    kept = hub.backup()
    remove(hub.device, hub.gate, group_id)
    assert hub.authority.remove(name)
    hub.restore(kept)
    assert hub.lets_in(name, stolen)
    for _ in range(5):
        hub.turn()
    assert hub.lets_in(name, stolen), "it may still learn of its removal"
    hub.turn_until_idle()
    assert not hub.lets_in(name, stolen)
    assert any("is no longer a member" in line for line in hub.said)
    assert hub.authority.mint(name) != stolen


def test_members_that_change_the_group_all_the_time_keep_no_account_open(hub: _Hub, tmp_path: Path) -> None:
    other = Device("other", tmp_path)
    group_id = found(hub.device, hub.gate, other)
    name, others = inbox_name(hub.gate.key), inbox_name(other.key)
    password, kept = hub.authority.mint(name), hub.authority.mint(others)
    remove(hub.device, hub.gate, group_id)
    changes = 0
    hub.turn_while_busy()
    while hub.lets_in(name, password) and changes < 20:
        hub.device.wait(REMOVED_ACCOUNT_US / 4e6)
        newcomer = Member(Device(f"newcomer {changes}", tmp_path).identity.keys)
        with hub.device.store.transaction():
            hub.device.node.actions.change(group_id, lambda draft, _, new=newcomer: draft.adding(new), hub.device.now)
        hub.turn_while_busy()
        changes += 1
    assert changes == 4, "the grace runs from the removal, whatever changes later"
    assert hub.lets_in(others, kept)


def test_a_device_that_is_added_again_as_its_time_ends_keeps_its_account(hub: _Hub) -> None:
    group_id = found(hub.device, hub.gate)
    name = inbox_name(hub.gate.key)
    password = hub.authority.mint(name)
    remove(hub.device, hub.gate, group_id)
    hub.turn_while_busy()
    hub.device.wait(REMOVED_ACCOUNT_US / 1e6)
    member = Member(hub.gate.identity.keys)
    with hub.device.store.transaction():
        hub.device.node.actions.change(group_id, lambda draft, _: draft.adding(member), hub.device.now)
    hub.turn()
    assert hub.lets_in(name, password)
    hub.turn_until_idle()
    assert hub.lets_in(name, password)


def test_an_account_is_closed_once_the_password_file_can_be_changed_again(hub: _Hub) -> None:
    group_id = found(hub.device, hub.gate)
    name = inbox_name(hub.gate.key)
    password = hub.authority.mint(name)
    remove(hub.device, hub.gate, group_id)
    hub.turn_while_busy()
    away = hub.broker.rename(hub.broker.with_name("away"))
    hub.device.wait(REMOVED_ACCOUNT_US / 1e6)
    hub.turn()
    assert "cannot be removed" in hub.said[-1]
    away.rename(hub.broker)
    hub.turn_until_idle()
    assert not hub.lets_in(name, password)


def test_a_member_that_is_added_again_signs_in_as_before(hub: _Hub) -> None:
    """A hostile member may remove all others: adding them again is enough."""
    group_id = found(hub.device, hub.gate)
    name = inbox_name(hub.gate.key)
    password = hub.authority.mint(name)
    for _ in range(2):
        remove(hub.device, hub.gate, group_id)
        hub.turn_until_idle()
        assert not hub.lets_in(name, password)
        with hub.device.store.transaction():
            hub.device.node.actions.change(
                group_id, lambda draft, _: draft.adding(Member(hub.gate.identity.keys)), hub.device.now
            )
        hub.turn()
        assert hub.lets_in(name, password)
    remove(hub.device, hub.gate, group_id)
    hub.turn_until_idle()
    assert not hub.authority.remove(name), "it has no account at the moment"
    assert hub.authority.reinstate([name]) == [], "a person has removed it since"
    assert hub.authority.mint(name) != password


def test_the_accounts_of_members_and_those_made_by_hand_stay(hub: _Hub, tmp_path: Path) -> None:
    other = Device("other", tmp_path)
    group_id = found(hub.device, hub.gate, other)
    by_hand, member = (
        hub.authority.mint(inbox_name(hub.gate.key), by_hand=True),
        hub.authority.mint(inbox_name(other.key)),
    )
    own = hub.authority.mint(inbox_name(hub.device.key))
    remove(hub.device, hub.gate, group_id)
    hub.turn_until_idle()
    assert hub.lets_in(inbox_name(hub.gate.key), by_hand)
    assert hub.lets_in(inbox_name(other.key), member)
    assert hub.lets_in(inbox_name(hub.device.key), own)


@pytest.mark.slow
def test_a_fleet_ca_revokes_the_certificates_of_former_members(hub: _Hub, tmp_path: Path) -> None:
    other = Device("other", tmp_path)
    group_id = found(hub.device, hub.gate, other)
    ca = FleetCa.create(tmp_path / "ca")
    ca.mint(inbox_name(hub.gate.key))
    ca.mint(inbox_name(other.key), by_hand=True)
    for each in (hub.gate, other):
        remove(hub.device, each, group_id)
    role = MemberAccounts(lambda: ca, hub.device.store, lambda _level, line: hub.said.append(line))
    while role.turn(hub.device.node, hub.device.now) is not None:
        hub.device.wait(REMOVED_ACCOUNT_US / 1e6)

    def certified(folder: str) -> list[str]:
        return [path.name.partition("-")[0] for path in (ca.folder / folder).iterdir()]

    assert certified("closed") == [inbox_name(hub.gate.key)]
    assert certified("issued") == [inbox_name(other.key)]
    closed = (ca.folder / "revoked.crl").read_bytes()
    assert ca.reinstate([inbox_name(hub.gate.key), inbox_name(other.key)]) == [inbox_name(hub.gate.key)]
    assert len((ca.folder / "revoked.crl").read_bytes()) < len(closed)
    assert ca.close([inbox_name(hub.gate.key)]) == [inbox_name(hub.gate.key)]
    ca.remove(inbox_name(hub.gate.key))
    assert ca.reinstate([inbox_name(hub.gate.key)]) == []
    assert certified("revoked") == [inbox_name(hub.gate.key)]


@pytest.mark.parametrize(
    "damage",
    [
        lambda _content: b"",
        lambda content: content[:-1].rpartition(b"\n")[0],
        lambda content: content[:20],
        lambda content: b"\xff" + content,
        None,
    ],
    ids=["emptied", "last line lost", "cut", "not text", "deleted"],
)
def test_no_account_gets_the_password_of_a_removed_one_after_damage(
    hub: _Hub, damage: Callable[[bytes], bytes] | None
) -> None:
    name, turns = "ab" * 16, hub.broker / "passwords.turns"
    stolen = hub.authority.mint(name)
    hub.authority.remove(name)
    if damage is None:
        turns.unlink()
    else:
        turns.write_bytes(damage(turns.read_bytes()))
    for attempt in (
        lambda: hub.authority.mint(name),
        lambda: hub.authority.reinstate([name]),
        lambda: hub.authority.close([name]),
    ):
        with pytest.raises(ConfigurationError, match="is damaged"):
            attempt()
    for path in (turns, hub.broker / "passwords.secret"):  # as the hint says
        path.unlink(missing_ok=True)
    assert hub.authority.mint(name) != stolen
