"""A relay of one's own (`covey relay serve`): real mosquitto, TLS by an authority of its own, and devices that join."""

from __future__ import annotations

import json
import os
import secrets
import signal
import ssl
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import pytest
from cryptography import x509

from broker_conf.mosquitto.broker import environment_with_mosquitto, free_port
from covey.adapters.broker import fleet_ca, served_folder
from covey.adapters.broker.examination import BrokerAccount, Examination
from covey.adapters.broker.mosquitto_passwords import shared_enrolment
from covey.adapters.broker.served_folder import ServedFolder
from covey.adapters.broker.visitor import BrokerAddress, Visitor
from covey.adapters.keys.storage_key import StorageKey
from covey.adapters.keys.wrapped_file import write_wrapped
from covey.adapters.mqtt.tls import tls_context
from covey.adapters.state_folder import StateFolder
from covey.app.device.device import open_device
from covey.app.pairing import first_contact, inviting
from covey.app.pairing.first_contact import RelayPatience, is_proved, prove
from covey.errors import RelayError
from demo.device import COVEY
from tests.integration.certificates import make_certificate
from tests.integration.gateway import Gateway
from tests.waiting import wait_until

pytestmark = pytest.mark.broker

_KEY = StorageKey(bytes(32))


@pytest.fixture(autouse=True)
def mosquitto_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands find the mosquitto of the tests, as they find Debian's."""
    for name, value in environment_with_mosquitto().items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Callable[[str], Machine]]:
    """Make machines on which nothing of Covey's has run; what runs on them is ended at the end."""
    made: list[Machine] = []

    def make(name: str) -> Machine:
        made.append(Machine(tmp_path, name))
        return made[-1]

    yield make
    for each in made:
        each.end()


class Machine(Gateway):
    """A machine that is no device yet."""

    program: Sequence[str]

    def set_up(self, broker: object = None, url: str = "") -> None:
        """Leave that to commands."""


class Hub:
    """A machine and the relay that it serves: two states of one folder, since each is a process that goes on."""

    def __init__(self, machine: Callable[[str], Machine], *words: str, program: Sequence[str] = COVEY) -> None:
        self.device = machine("hub")
        self.server = machine("hub")
        self.server.program = program
        self.server.log = self.server.log.with_name("relay.log")
        self.port = free_port()
        self.server.start("relay", "serve", "--label", "hub", "--port", str(self.port), *words)
        wait_until(lambda: "serving the relay" in self.log, "the relay is served")

    @property
    def log(self) -> str:
        return self.server.log.read_text() if self.server.log.exists() else ""

    @property
    def storage_key(self) -> StorageKey:
        """What the secrets on its disk are wrapped with."""
        return StorageKey.of(StateFolder.at(self.device.state).identity())

    @property
    def mosquitto(self) -> psutil.Process:
        """The broker's process."""
        (found,) = [each for each in psutil.Process(self.server.pid).children() if each.name() == "mosquitto"]
        return found

    def finding(self, check: str) -> str:
        """Return how `covey check` finds one thing: its level."""
        offline = ["--offline"] if check == "served_relay" else []
        done = self.device.covey("check", "--json", *offline)
        return _finding(done.stdout, check)


def _finding(document: str, check: str) -> str:
    return next(str(each["level"]) for each in json.loads(document)["findings"] if each["check"] == check)


def test_one_command_starts_a_relay_that_admits_the_devices_it_enrols(machine: Callable[[str], Machine]) -> None:
    hub = Hub(machine)
    assert [hub.finding(check) for check in ("served_relay", "relay", "credential", "acl")] == ["ok"] * 4
    for _ in range(3):  # one after the other: mosquitto loses a signal that comes while it still reads its files
        user_name = secrets.token_hex(16)
        password = hub.device.ok("broker", "enrol", user_name)
    wait_until(lambda: hub.finding("served_relay") == "ok", "the last account is in force")
    assert hub.log.count("Reloading config") >= 1
    stored = hub.device.state / "broker"
    os.kill(hub.server.pid, signal.SIGSTOP)
    try:
        hub.device.ok("broker", "enrol", secrets.token_hex(16))
        found = hub.device.covey("check", "--offline").stdout
    finally:
        os.kill(hub.server.pid, signal.SIGCONT)
    assert "the broker has not been reloaded" in found
    wait_until(lambda: hub.finding("served_relay") == "ok", "it is")
    assert stat.S_IMODE(stored.stat().st_mode) == 0o700
    assert password.strip() not in "".join(each.read_text() for each in stored.glob("*") if each.is_file())


def test_a_relay_is_served_again_when_its_broker_dies_and_ends_with_its_server(
    machine: Callable[[str], Machine],
) -> None:
    hub = Hub(machine)
    first = hub.mosquitto
    first.kill()
    wait_until(lambda: hub.log.count("serving the relay") == 2, "it is served again")
    second = hub.mosquitto
    hub.server.end(signal.SIGKILL)
    wait_until(lambda: not second.is_running() or second.status() == psutil.STATUS_ZOMBIE, "nothing is left behind")
    assert hub.finding("served_relay") == "error"


def test_a_device_verifies_the_relays_authority_later(machine: Callable[[str], Machine], tmp_path: Path) -> None:
    hub = Hub(machine)
    ca_file = hub.device.state / "broker/ca/ca.crt"
    stranger, _ = make_certificate(tmp_path / "stranger", -1, 1)
    url = f"mqtts://127.0.0.1:{hub.port}"

    def proved(authority: Path | None) -> bool:
        return is_proved(url, authority, allow_tls12=False, given_up=lambda: True)

    assert proved(ca_file)
    assert not proved(None)
    with pytest.raises(RelayError, match="is not trusted") as refused:
        proved(stranger)
    assert "covey relay set --ca-file" in refused.value.hint
    prove(url, ca_file.read_text(), allow_tls12=False)
    for certificates in ("", stranger.read_text()):  # whoever stands between has no certificate of the inviter's
        with pytest.raises(RelayError, match="is not trusted"):
            prove(url, certificates, allow_tls12=False)
    hub.server.end()
    with pytest.raises(RelayError, match="nothing listens"):
        proved(ca_file)


def test_a_joiner_learns_that_the_relay_refuses_it(
    machine: Callable[[str], Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = Hub(machine)
    for bound in ("_LOOK_S", "_REFUSED_S", "_UNREACHABLE_S"):
        monkeypatch.setattr(first_contact, bound, 0.0)
    with open_device(StateFolder.at(hub.device.state)) as device:
        patience = RelayPatience(device)
        patience.check()
        with device.store.transaction():
            device.store.conditions.set("relay", "not authorised", device.now().wall_us)
        with pytest.raises(RelayError, match="refuses this device: not authorised"):
            patience.check()
        hub.server.end()
        with pytest.raises(RelayError, match="nothing listens"):
            patience.check()


def test_an_invite_ends_where_the_relay_is_not_there(  # nobody waits ten minutes for a joiner who cannot come
    machine: Callable[[str], Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = Hub(machine)
    hub.device.ok("group", "create")
    hub.server.end()
    for bound in ("_LOOK_S", "_UNREACHABLE_S"):
        monkeypatch.setattr(first_contact, bound, 1.0)
    with open_device(StateFolder.at(hub.device.state)) as device:
        invitation = inviting.open_invitation(device, None, (), accepts_any=True, with_code=False, operators=None)
        with pytest.raises(RelayError, match="nothing listens") as ended:
            invitation.wait(lambda: None)
        assert ended.value.hint
        assert device.store.invites.all() == [], "nobody joins by it later"


def test_a_collector_without_a_relay_or_a_vault_leaves_nothing_behind(machine: Callable[[str], Machine]) -> None:
    device = machine("barn")
    device.ok("init")
    for words in (["collect"], ["collect", "--new-group"]):
        assert "no relay is set" in device.fails(*words, code=78)
    device.ok("relay", "set", "mqtt://127.0.0.1:9")
    for words in (["collect"], ["collect", "--new-group"]):
        assert "cannot make" in device.fails(*words, "--vault", "/proc/nowhere", code=1)
    assert not [path for path in device.state.iterdir() if path.name.startswith("vault")]
    assert device.fails("group", "show", code=1)


def test_a_broker_of_ones_own_stays_as_it_is(machine: Callable[[str], Machine]) -> None:
    device = machine("barn")
    device.ok("init")
    device.ok("relay", "set", "mqtts://relay.example.org")
    before = (device.state / "config.toml").read_text()
    assert "already uses the relay" in device.fails("relay", "serve", code=78)
    assert (device.state / "config.toml").read_text() == before
    assert not (device.state / "broker").exists()


def test_a_certificate_is_renewed_before_its_end_and_for_other_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = ServedFolder(tmp_path / "broker")
    assert place.certify(["relay.example.org", "192.0.2.7"], _KEY)
    authority = place.ca_file.read_bytes()
    assert not place.certify(["192.0.2.7", "relay.example.org"], _KEY)
    assert place.certify(["192.0.2.8"], _KEY)
    monkeypatch.setattr(served_folder, "_RENEWED_BEFORE", served_folder._RENEWED_BEFORE * 20)
    assert place.certify(["192.0.2.8"], _KEY)
    assert place.ca_file.read_bytes() == authority
    assert stat.S_IMODE(place.certificate_file.stat().st_mode) == 0o600


_LOOKS_OFTEN = (
    "import sys; from covey.app.relays import relay_server; relay_server._CERTIFICATE_S = 0.2; "
    "from covey.cli.main import main; sys.exit(main())"
)


def test_a_relay_that_is_served_gets_its_next_certificate_and_nobody_loses_it(
    machine: Callable[[str], Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = Hub(machine, program=(sys.executable, "-c", _LOOKS_OFTEN))
    place = ServedFolder(hub.device.state / "broker")
    hub.device.start("run", "--no-sensors")
    wait_until(lambda: hub.device.json("status")["relay"]["state"] == "up", "the agent is connected")
    monkeypatch.setattr(fleet_ca, "_SERVER_DAYS", timedelta(days=9))
    ending = fleet_ca.FleetCa.create(place.path / "ca", hub.storage_key).mint_server(["localhost"])
    write_wrapped(place.certificate_file, ending.encode(), hub.storage_key, place.certificate_file.name)
    wait_until(
        lambda: place.server_pem(hub.storage_key) != ending.encode(), "another one is made, long before this one ends"
    )
    wait_until(lambda: _days_left(hub.port) > 300, "mosquitto shows the new one")
    assert hub.device.json("status")["relay"]["state"] == "up"
    assert "certificate" not in hub.device.log.read_text()
    assert hub.device.log.read_text().count("relay: connected") == 1
    assert hub.finding("relay") == "ok"


def test_a_relay_whose_key_a_disk_damaged_gets_another_at_its_start(machine: Callable[[str], Machine]) -> None:
    hub = Hub(machine)
    place = ServedFolder(hub.device.state / "broker")
    os.kill(hub.server.pid, signal.SIGSTOP)  # so that it looks when mosquitto has ended
    place.certificate_file.write_bytes(place.certificate_file.read_bytes()[:200])
    assert place.server_pem(hub.storage_key) == b""
    hub.mosquitto.kill()
    os.kill(hub.server.pid, signal.SIGCONT)
    wait_until(lambda: hub.log.count("serving the relay") == 2, "it is served again")
    assert b"PRIVATE KEY" in place.server_pem(hub.storage_key)
    place.certificate_file.unlink()
    hub.server.end()
    hub.server.start("relay", "serve")
    wait_until(lambda: hub.log.count("serving the relay") == 3, "it is served again")
    assert b"PRIVATE KEY" in place.server_pem(hub.storage_key)
    assert hub.finding("served_relay") == "ok"


def _days_left(port: int) -> int:
    """Return for how long the certificate is good that a server shows."""
    shown = ssl.get_server_certificate(("127.0.0.1", port))
    return (fleet_ca._ends_at(x509.load_pem_x509_certificate(shown.encode())) - datetime.now(UTC)).days


@pytest.mark.parametrize("account", ["enrol", "device"])
def test_an_account_that_subscribes_without_end_is_shut_out_and_nobody_else(
    machine: Callable[[str], Machine], account: str
) -> None:
    """6,000 filters of 150 levels, half a second's work, brought mosquitto to its memory's bound, where it exits."""
    hub = Hub(machine)
    place = ServedFolder(hub.device.state / "broker")
    hub.device.start("run", "--no-sensors")
    wait_until(lambda: hub.device.json("status")["relay"]["state"] == "up", "the agent is connected")
    broker = hub.mosquitto
    if account == "enrol":
        user_name, password = account, shared_enrolment(place.password_file, hub.storage_key) or ""
    else:
        user_name = secrets.token_hex(16)
        password = hub.device.ok("broker", "enrol", user_name).strip()
        wait_until(place.in_force, "the account is in force")
    address = BrokerAddress("127.0.0.1", hub.port, tls_context(place.ca_file))
    attacker = Visitor(address, user_name, password, client_id=user_name, session_s=3_600)
    assert not attacker.refusal
    for number in range(1_000):
        if attacker.gone:
            break
        attacker.subscribe_many([f"{number}/{each}/{'a/' * 148}" for each in range(50)])
    assert attacker.gone
    wait_until(lambda: f"the account {user_name} subscribed to more" in hub.log, "a person is told")
    assert hub.mosquitto == broker, "it has not ended"
    assert broker.memory_info().rss < 256 * 1024 * 1024
    assert Visitor(address, user_name, password, client_id=user_name).refusal
    assert hub.device.json("status")["relay"]["state"] == "up"
    assert hub.device.log.read_text().count("relay: connected") == 1
    assert "log_type" not in hub.log
    assert "/a/a/" not in hub.log, "subscriptions are counted, not logged"


def test_check_finds_that_a_served_relay_bounds_subscriptions(machine: Callable[[str], Machine]) -> None:
    hub = Hub(machine)
    place = ServedFolder(hub.device.state / "broker")
    names = [secrets.token_hex(16) for _ in range(2)]
    one, two = (BrokerAccount(name, hub.device.ok("broker", "enrol", name).strip()) for name in names)
    wait_until(place.in_force, "the accounts are in force")
    shared = shared_enrolment(place.password_file, hub.storage_key) or ""
    examination = Examination(f"mqtts://127.0.0.1:{hub.port}", place.ca_file, (one, two), shared, 0.0)
    assert [each for each in examination.findings() if not each.kept] == []


def test_a_broker_that_ends_over_what_it_has_saved_starts_again_without_it(machine: Callable[[str], Machine]) -> None:
    hub = Hub(machine)
    saved = hub.device.state / "broker/mosquitto.db"
    saved.write_bytes(b"kept")
    for served in (2, 3, 4):
        hub.mosquitto.kill()
        wait_until(lambda served=served: hub.log.count("serving the relay") == served, "it is served again")
    assert "its saved sessions and queues were deleted" in hub.log


def test_a_device_that_returns_with_a_new_password_harms_no_other_session(machine: Callable[[str], Machine]) -> None:
    """mosquitto 2.0 lists its old session twice, and takes whoever gets that memory for one whose time is over."""
    hub = Hub(machine)
    place = ServedFolder(hub.device.state / "broker")
    address = BrokerAddress("127.0.0.1", hub.port, tls_context(place.ca_file))

    def enrol(user_name: str) -> str:
        password = hub.device.ok("broker", "enrol", user_name).strip()
        wait_until(place.in_force, "the account is in force")
        return password

    def visit(user_name: str, password: str) -> Visitor:
        found = Visitor(address, user_name, password, client_id=user_name, clean=False, session_s=3_600)
        assert not found.refusal
        return found

    away, other = (secrets.token_hex(16) for _ in range(2))
    password, broker = enrol(other), hub.mosquitto
    waiting = visit(other, password)
    assert waiting.subscribe(f"covey/1/in/{other}") < 0x80
    waiting.close()
    visit(away, enrol(away)).close()
    changed = enrol(away)
    assert hub.mosquitto == broker, "no harm yet"
    visit(away, changed)
    wait_until(lambda: hub.log.count("serving the relay") == 2, "mosquitto is started again")
    assert hub.mosquitto != broker
    assert "its reload damaged a session" in hub.log
    assert visit(other, password).session_present, "sessions are kept"
    assert "Expiring" not in hub.log
