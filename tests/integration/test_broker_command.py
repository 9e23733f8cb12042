"""`covey broker init|enrol|remove`, as the person who runs the broker uses it, and what a pairing calls."""

from __future__ import annotations

import json
import os
import re
import secrets
import stat
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from broker_conf.mosquitto import Broker
from covey.adapters.broker.authority import PasswordAuthority, authority, reload_broker
from covey.adapters.broker.fleet_ca import FleetCa
from covey.adapters.broker.mosquitto_passwords import add_device
from covey.adapters.keys.relay_credential import keep_credential
from covey.adapters.state_folder import StateFolder
from covey.config.schema import BrokerConfig
from covey.core.ids import inbox_name, key_text
from covey.errors import ConfigurationError, UsageError
from tests import warm_covey
from tests.integration.gateway import Gateway
from tests.integration.mqtt_client import Client
from tests.waiting import take, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable


def covey(*words: str, feed: str = "", folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command where no device is."""
    return warm_covey.run(["broker", *words], feed, os.environ | {"COVEY_STATE": "/nowhere"}, folder)


def ok(*words: str, feed: str = "") -> str:
    """Run it; it must succeed. Return what it printed."""
    done = covey(*words, feed=feed)
    assert done.returncode == 0, done.stderr
    return done.stdout


def accepts(broker: Broker, name: str, password: str) -> bool:
    """Say whether the broker lets somebody in."""
    client = Client(broker, "", name, password)
    client.close()
    return not client.accepted.is_failure


@pytest.mark.broker
def test_a_broker_s_accounts_from_nothing(tmp_path: Path) -> None:
    file, name, pid_file = tmp_path / "passwords", secrets.token_hex(16), tmp_path / "pid"
    ok("init", "--password-file", str(file))
    with Broker(tmp_path / "broker", settings={"password_file": f"{file}\npid_file {pid_file}"}) as broker:
        drawn = (tmp_path / "passwords.enrolment").read_text()
        assert re.fullmatch("[a-z2-9]{8}", drawn)
        assert accepts(broker, "enrol", drawn)
        assert not accepts(broker, "enrol", "enrol")
        ok("init", "--password-file", str(file))  # again: what is there stays
        assert (tmp_path / "passwords.enrolment").read_text() == drawn
        files = ("--password-file", str(file), "--pid-file", str(pid_file))
        first = ok("enrol", name, *files).strip()
        assert first.isalnum()  # a shell, a URL and a command's options take it as it is
        wait_until(lambda: accepts(broker, name, first), "the broker knows the device")
        second = json.loads(ok("enrol", name, *files, "--json"))
        assert second["user_name"] == name
        wait_until(lambda: accepts(broker, name, second["password"]), "the device has a new password")
        assert not accepts(broker, name, first)

        ok("renew", *files)
        wait_until(lambda: not accepts(broker, "enrol", drawn), "the shared password is another")
        assert accepts(broker, "enrol", (tmp_path / "passwords.enrolment").read_text())
        ok("init", *files, "--shared-password-file", "-", feed="fern otter\n")
        wait_until(lambda: accepts(broker, "enrol", "fern otter"), "the shared password is another")
        client = Client(broker, "", name, second["password"])
        assert json.loads(ok("remove", name, *files, "--json")) == {"user_name": name, "removed": True}
        take(client.disconnects)
        ok("remove", "enrol", *files)
        wait_until(lambda: not accepts(broker, "enrol", "fern otter"), "the account is closed")
        client.close()
    assert "had no credential" in ok("remove", name, "--password-file", str(file))


def test_the_file_keeps_its_mode_and_holds_no_password(tmp_path: Path) -> None:
    file, name = tmp_path / "passwords", secrets.token_hex(16)
    ok("init", "--password-file", str(file))
    password = ok("enrol", name, "--password-file", str(file)).strip()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.chmod(0o640)
    ok("enrol", secrets.token_hex(16), "--password-file", str(file))
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert len(file.read_text().splitlines()) == 3
    assert password not in file.read_text()


def test_the_credential_in_a_file(tmp_path: Path) -> None:
    file, output, key = tmp_path / "passwords", tmp_path / "one", secrets.token_bytes(32)
    file.touch()
    assert ok("enrol", key_text("sign", key), "--password-file", str(file), "--output", str(output)) == ""
    assert stat.S_IMODE(output.stat().st_mode) == 0o600
    assert file.read_text().startswith(f"{inbox_name(key)}:$7$")
    assert len(output.read_text().strip()) == 48


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["enrol"], 2, "missing: HEX"),
        (["init", "a" * 32], 2, "one argument too many"),
        (["enrol", "ab" * 15], 2, "32 lower-case hex digits"),
        (["enrol", "../" * 21 + "a", "--ca", "ca"], 2, "32 lower-case hex digits"),
        (["enrol", "covey-sign-" + "a" * 58], 2, "mistyped"),
        (["enrol", "a" * 32], 2, "no password file or CA"),
        (["enrol", "a" * 32, "--ca", "ca"], 78, "covey broker init --ca"),
        (["enrol", "a" * 32, "--ca", "ca", "--password-file", "p"], 2, "exclude each other"),
        (["enrol", "a" * 32, "--password-file", "nowhere/p"], 78, "nowhere/p is not a file"),
        (["enrol", "a" * 32, "--password-file", "mistyped"], 78, "covey broker init --password-file mistyped"),
        (["remove", "a" * 32, "--password-file", "mistyped"], 78, "mistyped is not a file"),
        (["renew", "--password-file", "mistyped"], 78, "mistyped is not a file"),
        (["init", "--password-file", "nowhere/p"], 78, "cannot be changed"),
        (["enrol", "a" * 32, "--password-file", "p", "--pid-file", "text"], 78, "no readable process id"),
        (["init", "--password-file", "p", "--shared-password-file", "-"], 2, "is empty"),
        (["remove", "a" * 31, "--password-file", "p"], 2, "32 lower-case hex digits"),
    ],
)
def test_mistakes(tmp_path: Path, words: list[str], code: int, message: str) -> None:
    (tmp_path / "text").write_text("no number")
    (tmp_path / "p").touch()
    done = covey(*words, folder=tmp_path)
    assert (done.returncode, done.stdout) == (code, "")
    assert message in done.stderr
    assert done.stderr.count("error: ") == 1
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "mistyped").exists()  # the broker does not read it


def test_a_fleet_ca_is_made_once(tmp_path: Path) -> None:
    folder = tmp_path / "ca"
    shown = json.loads(ok("init", "--ca", str(folder), "--json"))
    before = Path(shown["ca_file"]).read_bytes()
    ok("init", "--ca", str(folder))
    assert Path(shown["ca_file"]).read_bytes() == before
    assert stat.S_IMODE((folder / "ca.key").stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    (folder / "ca.key").chmod(0o644)
    done = covey("enrol", "a" * 32, "--ca", str(folder))
    assert done.returncode == 78
    assert "chmod 600" in done.stderr


def test_two_halves_of_two_authorities(tmp_path: Path) -> None:
    one, two = FleetCa.create(tmp_path / "one"), FleetCa.create(tmp_path / "two")
    (one.folder / "ca.crt").write_bytes((two.folder / "ca.crt").read_bytes())
    with pytest.raises(ConfigurationError, match="do not match"):
        FleetCa.open(one.folder)
    (one.folder / "ca.crt").write_text("nothing")
    with pytest.raises(ConfigurationError, match="damaged"):
        FleetCa.open(one.folder)


def test_two_at_a_time_undo_nothing(tmp_path: Path) -> None:
    file, names = tmp_path / "passwords", [secrets.token_hex(16) for _ in range(20)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: add_device(file, name), names))
    assert sorted(line[:32] for line in file.read_text().splitlines()) == sorted(names)


def test_a_crash_between_writing_and_replacing(tmp_path: Path) -> None:
    file = tmp_path / "passwords"
    add_device(file, "a" * 32)
    (tmp_path / "passwords.new").write_text("half a li")
    add_device(file, "b" * 32)
    assert [line[0] for line in file.read_text().splitlines()] == ["a", "b"]


def test_a_pairing_makes_an_account_for_the_joiner(tmp_path: Path) -> None:
    """An inviter whose configuration names an authority mints the joiner's credential."""
    gateway, name = Gateway(tmp_path, "inviter"), "ab" * 16
    assert authority(BrokerConfig(), gateway.state, None) is None
    (gateway.state / "passwords").touch()
    gateway.ok("config", "set", "broker.password_file", "passwords")
    held = authority(BrokerConfig(password_file="passwords", pid_file="none"), gateway.state, None)
    assert held == PasswordAuthority(gateway.state / "passwords", gateway.state / "none")
    password = held.mint(name)
    assert held.mint(name) != password
    assert gateway.ok("broker", "enrol", name).strip() not in {"", password}
    assert held.remove(name)
    FleetCa.create(gateway.state / "ca")
    issued = authority(BrokerConfig(ca_folder="ca"), gateway.state, None)
    assert issued is not None
    assert issued.mint(name).count("-----BEGIN ") == 2
    for each in (held, issued):
        with pytest.raises(UsageError):
            each.mint("enrol")
    with pytest.raises(ConfigurationError, match="are both set"):
        authority(BrokerConfig(password_file="passwords", ca_folder="ca"), gateway.state, None)


def test_the_joiner_keeps_its_credential_privately(tmp_path: Path) -> None:
    """A password or a certificate: either is kept privately, used from the next connection on, and wiped in the end."""
    folder = StateFolder.at(tmp_path / "joiner")
    identity = folder.create({})
    name = inbox_name(identity.signing_public)
    password = PasswordAuthority(tmp_path / "passwords").mint(name)
    keep_credential(folder, password, identity)
    assert folder.relay_password(folder.configuration.config(), identity) == password
    assert password not in (folder.path / "relay.password").read_text()
    bundle = FleetCa.create(tmp_path / "ca").mint(name)
    keep_credential(folder, bundle, identity)
    assert bundle[:64] not in (folder.path / "relay.pem").read_text()
    assert folder.configuration.config().relay.client_certificate == "relay.pem"
    assert stat.S_IMODE((folder.path / "relay.pem").stat().st_mode) == 0o600
    folder.wipe()
    assert not [each for each in ("relay.pem", "relay.password") if (folder.path / each).exists()]


def test_a_stale_pid_file_signals_nobody(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    assert not reload_broker(pid_file)
    for pid in (os.getpid(), 2**22 + 1):  # alive and no broker; nobody
        pid_file.write_text(f"{pid}\n")
        assert not reload_broker(pid_file)


@pytest.mark.broker
def test_a_certificate_in_two_files(tmp_path: Path, new_gateway: Callable[[str], Gateway]) -> None:
    gateway = new_gateway("one")
    FleetCa.create(tmp_path / "ca")
    bundle = gateway.ok("broker", "enrol", gateway.author, "--ca", str(tmp_path / "ca"))
    key, certificate = tmp_path / "relay.key", tmp_path / "relay.crt"
    place = bundle.index("-----BEGIN CERTIFICATE")
    key.write_text(bundle[:place])
    certificate.write_text(bundle[place:])
    words = ("relay", "set", "--certificate", str(certificate), "--key", str(key))
    key.chmod(0o644)
    assert "chmod 600" in gateway.fails(*words, code=78)
    key.chmod(0o600)
    assert str(certificate) in gateway.ok(*words)
    assert gateway.ok("config", "get", "relay.client_key").strip() == str(key)
    gateway.fails("relay", "set", "--key", str(key), code=2)
    gateway.fails("relay", "set", "--certificate", "-", feed="a password", code=2)
    gateway.fails("relay", "set", "--certificate", str(certificate), code=78)  # without its key
