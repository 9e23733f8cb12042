"""`covey.adapters.mqtt.settings`: which TLS is spoken, and whose eyes a relay's password may cross."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from covey.adapters.mqtt.settings import (
    CertifiedTime,
    check_not_ended,
    exposes_password,
    judge_times,
    plain_words,
    tls_context,
)
from tests.command import Here
from tests.integration.certificates import make_certificate


@pytest.fixture
def alone(tmp_path: Path) -> Here:
    """A device that has no broker."""
    return Here(tmp_path, "alone")


def _handshake(client: ssl.SSLContext, server: ssl.SSLContext) -> ssl.SSLObject:
    """Exchange the first flights in memory; raise what one of them cannot agree to. Return the client's end."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        server.wrap_bio(to_server, to_client, server_side=True),
        client.wrap_bio(to_client, to_server, server_hostname="relay.example.org"),
    )
    for end in (ends[1], ends[0], ends[1]):
        try:
            end.do_handshake()
        except ssl.SSLWantReadError:
            continue
        except ssl.SSLError:
            if end is ends[1]:
                raise  # the server's alert, as a client sees it
    return ends[1]


@pytest.mark.processes
@pytest.mark.parametrize(
    ("now_s", "begins_days", "takes"), [(0, -1, True), (0, 10, True), (None, -1, True), (None, 10, False)]
)
def test_a_clock_that_was_never_set_judges_no_certificate(
    tmp_path: Path, now_s: float | None, begins_days: int, takes: bool
) -> None:
    chain, key = make_certificate(tmp_path / "tls", begins_days, 400)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(chain, key)
    client = tls_context(chain)
    client.check_hostname = False
    judge_times(client, time.time() if now_s is None else now_s)
    if takes:
        _handshake(client, server)
    else:
        with pytest.raises(ssl.SSLCertVerificationError, match="not yet valid"):
            _handshake(client, server)
    judge_times(client, 0)
    judge_times(client, time.time())
    assert client.verify_flags == tls_context(chain).verify_flags, "once the clock is set, it counts"


@pytest.mark.processes
def test_a_certificate_that_ended_before_a_time_that_has_passed_is_refused(tmp_path: Path) -> None:
    chain, key = make_certificate(tmp_path / "tls", -400, -100)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(chain, key)
    client = tls_context(chain)
    client.check_hostname = False
    last_year_s, now_s = time.time() - 365 * 86_400, time.time()
    judge_times(client, 0, now_s)
    connected = _handshake(client, server)
    check_not_ended(connected, 0, last_year_s)
    with pytest.raises(ssl.SSLCertVerificationError) as raised:
        check_not_ended(connected, 0, now_s)
    assert "certificate has expired" in plain_words(raised.value, "relay.example.org", 8883)
    check_not_ended(connected, now_s + 1, now_s)  # OpenSSL has checked it


@pytest.mark.processes
def test_the_beginning_of_a_checked_certificate_has_passed(tmp_path: Path) -> None:
    chain, key = make_certificate(tmp_path / "tls", -400, 100)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(chain, key)
    unchecked, checked = tls_context(None, proved=False), tls_context(chain)
    checked.check_hostname = False
    certified = CertifiedTime()
    certified.note(_handshake(unchecked, server))
    assert certified.begins_s == 0, "anybody could show that one"
    certified.note(_handshake(checked, server))
    assert abs(certified.begins_s - (time.time() - 400 * 86_400)) < 2 * 86_400


def test_tls_1_3_alone_is_spoken_unless_1_2_is_allowed() -> None:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError) as raised:
        _handshake(tls_context(None), server)
    said = plain_words(raised.value, "relay.example.org", 8883)
    assert said == "relay.example.org:8883 does not speak TLS 1.3, and relay.allow_tls12 is off"

    assert tls_context(None).minimum_version == ssl.TLSVersion.TLSv1_3
    assert tls_context(None, allow_tls12=True).minimum_version == ssl.TLSVersion.TLSv1_2


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.9.9.9",
        "[::1]",
        "10.1.2.3",
        "172.16.0.1",
        "172.31.255.1",
        "192.168.7.7",
        "169.254.1.1",
        "[fd00::1]",
        "[fe80::1]",
        "[::ffff:10.0.0.1]",
        "localhost",
        "barn",
        "barn.local",
        "BARN.LOCAL.",
        "a.b.internal",
        "nas.home.arpa",
    ],
)
def test_this_machine_and_private_networks_see_a_password(host: str) -> None:
    assert not exposes_password(f"mqtt://{host}:1883")


@pytest.mark.parametrize(
    "host",
    [
        "198.51.100.7",
        "172.32.0.1",
        "192.169.0.1",
        "100.64.0.1",
        "8.8.8.8",
        "[2001:db8::1]",
        "[::ffff:8.8.8.8]",
        "relay.example.org",
        "nas.lan",
        "notlocal.example",
        "10.0.0.1.example.org",
    ],
)
def test_nobody_else_may(host: str) -> None:
    assert exposes_password(f"mqtt://{host}")
    assert not exposes_password(f"mqtts://{host}")


_SETTERS: dict[str, Callable[[Here, str], str]] = {
    "relay": lambda here, url: here.covey("relay", "set", url).stderr,
    "config": lambda here, url: here.covey("config", "set", "relay.url", url).stderr,
    "add": lambda here, url: (
        here.covey("relay", "set", "mqtt://127.0.0.1").stderr + here.covey("relay", "add", url).stderr
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("setter", _SETTERS)
def test_a_person_who_sets_such_a_relay_is_warned(alone: Here, setter: str) -> None:
    assert "warning: mqtt://relay.example.org is not on" in _SETTERS[setter](alone, "mqtt://relay.example.org")
    assert "warning" not in _SETTERS[setter](alone, "mqtts://relay.example.net")
    assert "warning" not in _SETTERS[setter](alone, "mqtt://192.168.1.5")
