"""`covey broker check` on real brokers: a good one passes, and each property that one lacks is found."""

from __future__ import annotations

import json
import secrets
import socket
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from broker_conf.mosquitto import Broker
from covey.adapters.broker.examination import BrokerAccount, Examination
from covey.adapters.broker.fleet_ca import FleetCa
from covey.adapters.broker.mosquitto_passwords import write_account
from tests.integration.certificates import make_certificate
from tests.integration.test_broker_command import covey

if TYPE_CHECKING:
    from collections.abc import Mapping

pytestmark = pytest.mark.broker

_ACL = (Path(__file__).parents[2] / "broker_conf" / "mosquitto" / "acl").read_text()


def identities(broker: Broker) -> tuple[BrokerAccount, BrokerAccount]:
    """Make two that no device uses."""
    one, two = secrets.token_hex(16), secrets.token_hex(16)
    return BrokerAccount(one, broker.add_device(one)), BrokerAccount(two, broker.add_device(two))


_UNBOUNDED = "bounds_subscriptions"
"""What mosquitto alone never keeps: `covey relay serve` does, by what its log tells (test_served_relay.py)."""


def broken(broker: Broker, *, shared: str | None = None, listen_s: float = 0.0) -> dict[str, str]:
    """Return what a broker does not keep of what mosquitto can keep, and what was seen."""
    examination = Examination(broker.url, None, identities(broker), shared or broker.enrolment_password, listen_s)
    return {each.name: each.seen for each in examination.findings() if not each.kept and each.name != _UNBOUNDED}


def test_the_committed_configuration_keeps_what_mosquitto_can_keep(broker: Broker) -> None:
    assert broken(broker) == {}
    assert broken(broker, shared="another") == {}  # an account that is closed is confined


def test_subscriptions_that_nothing_bounds_are_found_and_harm_nobody(broker: Broker) -> None:
    examination = Examination(broker.url, None, identities(broker), broker.enrolment_password, 0.0)
    found = {each.name: each for each in examination.findings()}[_UNBOUNDED]
    assert not found.kept
    assert "200 filters of 150 levels" in found.seen
    assert broken(broker) == {}


_LACKS: dict[str, tuple[Mapping[str, str | None], str]] = {
    "takes_large_envelopes": ({"max_packet_size": "1000000"}, "up to 1000000 bytes"),
    "bounds_packets": ({"max_packet_size": None}, "4001024 bytes"),
    "inboxes_are_read_by_owners": ({"acl_file": "pattern read covey/1/in/+"}, "messages for the other"),
    "sessions_are_kept_from_others": ({"use_username_as_clientid": "false"}, "client id"),
    "all_else_is_closed": ({"acl_file": "pattern readwrite covey-check/#"}, "covey-check/"),
    "refuses_retained": ({"retain_available": "true"}, "retained messages"),
    "enrolment_is_confined": ({"acl_file": "-topic deny covey/1/in/#"}, "write to inboxes"),
    "delivers": ({"acl_file": "-pattern write covey/1/in/+"}, "does not deliver"),
}
"""Property: what is changed in the committed configuration (a line more or, with -, less in the ACL), what is said."""


@pytest.mark.parametrize("lacking", _LACKS)
def test_missing_properties_of_a_broker_are_found(
    tmp_path: Path, lacking: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("covey.adapters.broker.visitor._ANSWER_S", 2.0)
    changes, said = _LACKS[lacking]
    settings = dict(changes)
    if line := settings.get("acl_file"):
        acl = tmp_path / "acl"
        acl.write_text(_ACL.replace(line[1:], "") if line.startswith("-") else f"{line}\n{_ACL}")
        settings["acl_file"] = str(acl)
    with Broker(tmp_path / "broker", settings=settings) as broker:
        found = broken(broker)
    assert said in found[lacking]
    also = {"enrolment_has_one_session"} if lacking == "sessions_are_kept_from_others" else set()
    assert found.keys() == {lacking, *also}


def test_the_password_that_everybody_knew_is_found(tmp_path: Path, broker: Broker) -> None:
    """What brokers had that were made before, and had not renewed it."""
    write_account(tmp_path / "broker" / "passwords", "enrol", "enrol")
    broker.reload()
    found = broken(broker, shared="enrol")
    assert found.keys() == {"enrolment_has_its_own_password"}
    assert "covey broker renew" in found["enrolment_has_its_own_password"]


def test_a_broker_open_to_anonymous_clients_is_found(tmp_path: Path) -> None:
    """Where the client id comes from the user name, `allow_anonymous true` alone opens nothing."""
    with Broker(tmp_path / "half", settings={"allow_anonymous": "true"}) as broker:
        assert broken(broker) == {}
    open_to_all = {"allow_anonymous": "true", "use_username_as_clientid": "false"}
    with Broker(tmp_path / "open", settings=open_to_all) as broker:
        found = broken(broker)
    assert found.keys() == {"refuses_strangers", "sessions_are_kept_from_others", "enrolment_has_one_session"}
    assert found["refuses_strangers"] == "it lets a client without a name in"


def test_counters_that_everybody_reads_are_found(tmp_path: Path) -> None:
    acl = tmp_path / "acl"
    acl.write_text(f"pattern read $SYS/#\n{_ACL}")
    with Broker(tmp_path / "broker", settings={"acl_file": str(acl), "sys_interval": "1"}) as broker:
        assert "$SYS/broker" in broken(broker, listen_s=2.5)["all_else_is_closed"]


def test_enrolment_that_reads_is_found(tmp_path: Path) -> None:
    acl = tmp_path / "acl"
    acl.write_text(f"user enrol\ntopic read covey/1/in/#\n{_ACL.replace('topic deny', 'topic deny x/')}")
    with Broker(tmp_path / "broker", settings={"acl_file": str(acl)}) as broker:
        assert "enrolment_is_confined" in broken(broker)


def test_a_broker_with_certificates_keeps_everything(tmp_path: Path) -> None:
    ca, server = FleetCa.create(tmp_path / "ca"), make_certificate(tmp_path / "server", -1, 10)
    one, two = (BrokerAccount(name, bundle=ca.mint(name)) for name in (secrets.token_hex(16), secrets.token_hex(16)))
    with Broker(tmp_path / "strict", certificate=server, fleet_ca=ca.folder) as strict:
        findings = list(Examination(strict.url, server[0], (one, two), "enrol", 0.0).findings())
    assert {each.name for each in findings if not each.kept} == {_UNBOUNDED}
    with Broker(
        tmp_path / "lax", certificate=server, fleet_ca=ca.folder, settings={"use_username_as_clientid": "false"}
    ) as lax:
        findings = list(Examination(lax.url, server[0], (one, two), "enrol", 0.0).findings())
    assert {each.name for each in findings if not each.kept} == {"sessions_are_kept_from_others", _UNBOUNDED}


def test_the_command(tmp_path: Path, broker: Broker) -> None:
    files = []
    for each in identities(broker):
        files.append(tmp_path / each.user_name[:8])
        files[-1].touch(mode=0o600)
        files[-1].write_text(json.dumps({"user_name": each.user_name, "password": each.password}))
    words = [word for file in files for word in ("--identity", str(file))]
    done = covey("check", "--listen", "0", "--url", broker.url, *words)
    assert done.returncode == 1, done.stdout
    assert done.stdout.count("\nok ") == 11
    assert done.stdout.count("BROKEN") == 1
    shown: dict[str, Any] = json.loads(covey("check", "--listen", "0", "--url", broker.url, *words, "--json").stdout)
    assert not shown["sound"]
    assert [each["property"] for each in shown["findings"] if not each["kept"]] == [_UNBOUNDED]

    broker.stop()
    done = covey("check", "--listen", "0", "--url", broker.url, *words)
    assert done.returncode == 1
    assert "BROKEN" in done.stdout
    assert "nothing listens" in done.stdout


@pytest.mark.parametrize(
    ("content", "mode", "code", "message"),
    [
        (None, 0o600, 2, "needs two identities"),
        ("{}", 0o600, 78, "is not an identity file"),
        ('{"user_name": "x"}', 0o600, 78, "is not an identity file"),
        ("[1]", 0o600, 78, "is not an identity file"),
        (json.dumps({"user_name": "a" * 32, "password": "p"}), 0o644, 78, "chmod 600"),
        (json.dumps({"user_name": "a" * 32, "password": "p"}), 0o600, 2, "both identities are the same"),
    ],
)
def test_mistakes(tmp_path: Path, content: str | None, mode: int, code: int, message: str) -> None:
    words = []
    if content is not None:
        file = tmp_path / "identity"
        file.write_text(content)
        file.chmod(mode)
        words = ["--identity", str(file)] * 2
    done = covey("check", "--url", "mqtt://127.0.0.1:1", *words)
    assert done.returncode == code
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\x20\x02\x00\x01",
        b"\x20\xff\xff\xff\xff\xff",
        b"\x30\x05\x00\x01\xff\x00x",  # a message whose topic is no UTF-8
    ],
)
def test_a_broker_without_mqtt5_is_reported_once(monkeypatch: pytest.MonkeyPatch, answer: bytes) -> None:
    monkeypatch.setattr("covey.adapters.broker.visitor._ANSWER_S", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1024)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        one, two = (BrokerAccount(name * 64, "secret word") for name in "ab")
        url = f"mqtt://127.0.0.1:{server.getsockname()[1]}"
        (finding,) = Examination(url, None, (one, two), "enrol", 0.0).findings()
        thread.join(10)
    assert (finding.name, finding.kept) == ("speaks_mqtt5", False)
    assert finding.seen
    assert "secret word" not in f"{finding} {one!r}"
