"""`covey.adapters.mqtt.tls`: which TLS is spoken, and which certificates are trusted."""

from __future__ import annotations

import ssl
import time
from pathlib import Path

import pytest

from covey.adapters.mqtt.settings import CertifiedTime
from covey.adapters.mqtt.tls import (
    certificate_begins_s,
    certificate_seconds,
    check_not_ended,
    judge_times,
    tls_context,
    tls_words,
)
from tests.integration.certificates import make_certificate


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
    assert "certificate has expired" in tls_words(raised.value, "relay.example.org", 8883)
    check_not_ended(connected, now_s + 1, now_s)  # OpenSSL has checked it


@pytest.mark.processes
def test_the_beginning_of_a_checked_certificate_has_passed(tmp_path: Path) -> None:
    chain, key = make_certificate(tmp_path / "tls", -400, 100)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(chain, key)
    unchecked, checked = tls_context(None, proved=False), tls_context(chain)
    checked.check_hostname = False
    certified = CertifiedTime()
    certified.note(certificate_begins_s(_handshake(unchecked, server)))
    assert certified.begins_s == 0, "anybody could show that one"
    certified.note(certificate_begins_s(_handshake(checked, server)))
    assert abs(certified.begins_s - (time.time() - 400 * 86_400)) < 2 * 86_400


@pytest.mark.parametrize("text", ["Jan  1 00:00:00 1970 GMT", "Feb 29 23:59:59 2028 GMT", "Dec 31 12:00:00 9999 GMT"])
def test_times_of_certificates_are_read_as_the_standard_library_reads_them(text: str) -> None:
    assert certificate_seconds(text) == ssl.cert_time_to_seconds(text)


def test_tls_1_3_alone_is_spoken_unless_1_2_is_allowed() -> None:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError) as raised:
        _handshake(tls_context(None), server)
    said = tls_words(raised.value, "relay.example.org", 8883)
    assert said == "relay.example.org:8883 does not speak TLS 1.3, and relay.allow_tls12 is off"

    assert tls_context(None).minimum_version == ssl.TLSVersion.TLSv1_3
    assert tls_context(None, allow_tls12=True).minimum_version == ssl.TLSVersion.TLSv1_2
