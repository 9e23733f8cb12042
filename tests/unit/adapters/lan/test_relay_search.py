"""A device finds its relay at another address of the local network, and nobody else's."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from covey.adapters.lan.relay_search import (
    GROUP,
    PORT,
    RelayAnnouncer,
    answer,
    answered_port,
    authority_keys,
    find_relays,
    question,
)

_KEY, _NONCE = bytes([7]) * 32, bytes([8]) * 16
_LOOPBACK = "127.0.0.1"


def test_only_the_right_question_is_answered_and_only_its_answer_is_taken() -> None:
    asked = question(_KEY, _NONCE)
    said = answer(asked, _KEY, 8883)
    assert said is not None
    assert len(said) == len(asked)
    assert answered_port(said, _KEY, _NONCE) == 8883
    assert answer(asked, bytes(32), 8883) is None
    assert answered_port(said, bytes(32), _NONCE) is None
    assert answered_port(said, _KEY, bytes(16)) is None
    assert answered_port(answer(asked, _KEY, 0) or b"", _KEY, _NONCE) is None


def test_damaged_datagrams_are_dropped() -> None:
    asked = question(_KEY, _NONCE)
    said = answer(asked, _KEY, 8883) or b""
    for raw, take in (
        (asked, lambda each: answer(each, _KEY, 1)),
        (said, lambda each: answered_port(each, _KEY, _NONCE)),
    ):
        for place in range(len(raw)):
            changed = bytearray(raw)
            changed[place] ^= 1
            assert take(bytes(changed)) is None, place
            assert take(raw[:place]) is None
        assert take(raw + b"x") is None


def test_two_questions_of_one_device_have_nothing_in_common_but_their_form() -> None:
    one, two = question(_KEY, bytes(16)), question(_KEY, bytes([1]) * 16)
    assert one[-16:] != two[-16:]


def test_each_certificate_of_a_file_has_a_key_and_other_text_has_none() -> None:
    first, second = (ssl.DER_cert_to_PEM_cert(each) for each in (b"one", b"two"))
    assert authority_keys(first + "a comment\n" + second) == authority_keys(first) + authority_keys(second)
    assert authority_keys("") == authority_keys("-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----") == []


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    return _file(tmp_path / "ours", b"ours")


def _file(path: Path, certificate: bytes) -> Path:
    path.write_text(ssl.DER_cert_to_PEM_cert(certificate))
    return path


def _loopback() -> list[str]:
    return [_LOOPBACK]


@pytest.fixture
def announcer(authority: Path) -> Iterator[RelayAnnouncer]:
    made = RelayAnnouncer(authority.read_text(), 12345, _loopback, pytest.fail)
    yield made
    made.close()


def _found(authority: Path) -> list[tuple[str, int]]:
    """Ask until the announcer listens."""
    deadline = time.monotonic() + 30
    while not (places := find_relays(authority, _loopback)) and time.monotonic() < deadline:
        pass
    return places


def test_a_relay_of_this_network_is_found(announcer: RelayAnnouncer, authority: Path, tmp_path: Path) -> None:
    del announcer
    assert [port for _, port in _found(authority)] == [12345]
    stranger = _file(tmp_path / "stranger", b"a stranger's")
    assert find_relays(stranger, _loopback) == []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as noise:
        noise.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(_LOOPBACK))
        for raw in (b"", b"x" * 2000, question(_KEY, _NONCE)):
            noise.sendto(raw, (GROUP, PORT))
    assert [port for _, port in find_relays(authority, _loopback)] == [12345], "it goes on answering"


def test_without_a_network_or_a_file_nothing_is_found(authority: Path, tmp_path: Path) -> None:
    assert find_relays(authority, list) == []
    assert find_relays(tmp_path / "missing", _loopback) == []
