"""Any bytes into any reader give a value or a `RemoteError`; CBOR is RFC 8949's one encoding."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import cbor2
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from covey.core import crypto
from covey.core.group.manifest import read_manifest
from covey.core.group.messages import Bundle, pull_from_wire
from covey.core.group.policy import read_vote
from covey.core.group.revocation import read_revoke
from covey.core.group.trust import GroupTrust
from covey.core.ids import DeviceKey, GroupId, Incarnation, NodeId, VaultId
from covey.core.link.link_keys import LinkKey
from covey.core.pairing import invite
from covey.core.telemetry import decoding
from covey.core.vault import documents, packing
from covey.core.vault.documents import SegmentPart, SegmentRecord
from covey.core.vault.keys import VaultKey
from covey.core.vault.segments import ErasedNumbers
from covey.core.wire import cbor, envelope, message
from covey.core.wire.deflate import deflate, inflate
from covey.errors import LocalError, RemoteError
from tests.examples import examples
from tests.replay import replay
from tests.vectors import load, octets
from tests.vectors.makers.cast import BOB, seeded

_BOUND = 1_000_000
_FEWER = examples(33)
"""For what runs once for every reader."""

_KEY = VaultKey(VaultId(seeded("vault id", 16)), seeded("vault key"))
_NODE = NodeId(bytes(16))

integers = st.integers(-(2**63), 2**63 - 1)
texts = st.text(st.characters(codec="utf-8"), max_size=30)
keys = st.one_of(st.integers(0, 2**63 - 1), st.integers(-(2**63), -1), texts, st.binary(max_size=30))
scalars = st.one_of(integers, texts, st.binary(max_size=300), st.booleans(), st.none())


def _maps(children: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[Any, Any]]:
    kinds = [st.integers(0, 2**63 - 1), st.integers(-(2**63), -1), texts, st.binary(max_size=30)]
    return st.one_of(*(st.dictionaries(kind, children, max_size=5) for kind in kinds))


values = st.recursive(scalars, lambda children: st.lists(children, max_size=6) | _maps(children), max_leaves=12)


def _deterministic(value: Any) -> bytes:
    """RFC 8949 section 4.2.1, written from the text alone."""
    if value is None or isinstance(value, bool):
        return {False: b"\xf4", True: b"\xf5", None: b"\xf6"}[value]
    if isinstance(value, int):
        return _head(0, value) if value >= 0 else _head(1, -1 - value)
    if isinstance(value, bytes):
        return _head(2, len(value)) + value
    if isinstance(value, str):
        return _head(3, len(value.encode())) + value.encode()
    if isinstance(value, list):
        return _head(4, len(value)) + b"".join(map(_deterministic, value))
    pairs = sorted((_deterministic(key), _deterministic(content)) for key, content in value.items())
    return _head(5, len(pairs)) + b"".join(key + content for key, content in pairs)


def _head(major: int, argument: int) -> bytes:
    if argument < 24:
        return bytes([major << 5 | argument])
    width = next(width for width in (1, 2, 4, 8) if argument < 1 << (8 * width))
    return bytes([major << 5 | 23 + width.bit_length()]) + argument.to_bytes(width, "big")


@given(values)
def test_cbor_encoding_is_deterministic_and_round_trips(value: Any) -> None:
    raw = cbor.encode(value)
    assert raw == _deterministic(value)
    depth_fits = _depth(value) <= 8
    if depth_fits:
        decoded = cbor.decode(raw, _BOUND)
        assert decoded == value
        assert cbor.encode(decoded) == raw


def _depth(value: Any) -> int:
    if isinstance(value, list):
        return 1 + max(map(_depth, value), default=0)
    if isinstance(value, dict):
        return 1 + max(map(_depth, value.values()), default=0)
    return 0


@given(st.binary(max_size=200))
def test_decoded_cbor_encodes_to_the_same_bytes(raw: bytes) -> None:
    try:
        value = cbor.decode(raw, _BOUND)
    except RemoteError:
        return
    assert _deterministic(value) == raw


@given(values, st.data())
def test_no_other_encoding_of_a_value_is_accepted(value: Any, data: st.DataObject) -> None:
    loose = cbor2.dumps(value)
    changed = bytearray(loose)
    changed[data.draw(st.integers(0, len(loose) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    for raw in (loose, bytes(changed)):
        with contextlib.suppress(RemoteError):
            assert _deterministic(cbor.decode(raw, _BOUND)) == raw


def _open_segment(raw: bytes) -> object:
    digest = crypto.digest(b"covey/1 segment", raw)
    return documents.open_segment(
        _KEY, _NODE, documents.SegmentEntry(1, Incarnation(bytes(8)), digest, len(raw), 0, 1), raw
    )


def _resealed_segment(raw: bytes) -> object:
    """Any plaintext, sealed by somebody who has the vault key."""
    header = b"HXSEG\x01" + _KEY.key_id
    binding = cbor.encode(["covey/1 segment", _KEY.vault_id, _NODE, 1, bytes(8)])
    return _open_segment(header + bytes(24) + crypto.aead_seal(raw, header + binding, bytes(24), _KEY.key))


def _packed_segment(raw: bytes) -> object:
    """Any content of a packed segment, by somebody who has the vault key."""
    return packing.unpack(len(raw), deflate(raw), cbor.uint(), cbor.many(ErasedNumbers.from_wire, 8))


def _resealed_manifest(raw: bytes) -> object:
    header = b"HXMAN\x01" + _KEY.key_id
    binding = cbor.encode(["covey/1 vault manifest", _KEY.vault_id, _NODE])
    sealed = header + bytes(24) + crypto.aead_seal(raw, header + binding, bytes(24), _KEY.key)
    return documents.open_vault_manifest(_KEY, _NODE, sealed)


def _batch(raw: bytes) -> object:
    return list(decoding.read_telemetry(raw)[1].readings())


def _sealed_for_us(raw: bytes) -> object:
    sealed = envelope.seal(raw, BOB.noise_public, b"\1" * 32, bytes(24))
    return message.read_message(envelope.read_envelope(sealed).open(BOB.noise_secret))


_LINK_KEY = bytes.fromhex(load("link_envelopes")["key"])


def _by_link(raw: bytes) -> bytes:
    return envelope.read_envelope(envelope.seal_by_link(raw, _LINK_KEY, bytes(envelope.TAG_BYTES), 1)).open(_LINK_KEY)


_READERS: dict[str, Callable[[bytes], object]] = {
    "envelope": lambda raw: envelope.read_envelope(raw).open(BOB.noise_secret),
    "link envelope": lambda raw: envelope.read_envelope(raw).open(_LINK_KEY),
    "link, opened": lambda raw: message.read_message(_by_link(raw)),
    "link": lambda raw: LinkKey.from_wire(DeviceKey(bytes(32)), raw),
    "padding": envelope.unpad,
    "sealed": _sealed_for_us,
    "message": message.read_message,
    "unverified message": lambda raw: message.read_message(raw, verify=False),
    "acknowledgement": message.Acknowledgement.from_wire,
    "loss": message.Loss.from_wire,
    "join": invite.JoinRequest.from_wire,
    "group manifest": read_manifest,
    "group messages": Bundle.from_wire,
    "group pulls": pull_from_wire,
    "votes": read_vote,
    "revokes": read_revoke,
    "trust": lambda raw: GroupTrust(GroupId(bytes(32)), None).join(
        [raw], DeviceKey(bytes(32)), DeviceKey(bytes(32)), bool
    ),
    "chain": lambda raw: replay([raw, raw]),
    "batch": _batch,
    "vault manifest": lambda raw: documents.open_vault_manifest(_KEY, _NODE, raw),
    "vault manifest, opened": _resealed_manifest,
    "segment": _open_segment,
    "segment, opened": _resealed_segment,
    "segment, unpacked": _packed_segment,
    "cbor": lambda raw: cbor.decode(raw, _BOUND),
}


_FILES = ("cbor", "envelopes", "link_envelopes", "messages", "group_manifests", "invites", "telemetry", "vault")


def _corpus() -> list[bytes]:
    """Every byte string of every vector: what a mutation should begin from."""
    found = [
        octets(entry, key)
        for name in _FILES
        for part in load(name).values()
        if isinstance(part, list)
        for entry in part
        if isinstance(entry, dict)
        for key in ("bytes", "message", "body")
        if isinstance(entry.get(key), str)
    ]
    size, packed = packing.pack([SegmentPart(1, 2, tuple([SegmentRecord(3, raw) for raw in found[-3:]]))], 0, [])
    return [raw for raw in [*found, inflate(packed, size, "corpus")] if len(raw) < 3_000]


_CORPUS = _corpus()


@pytest.mark.parametrize("read", _READERS.values(), ids=_READERS.keys())
def test_every_vectors_bytes_into_every_reader(read: Callable[[bytes], object]) -> None:  # accepts: 003.84
    for raw in _CORPUS:
        with contextlib.suppress(RemoteError):
            read(raw)


@pytest.mark.parametrize("read", _READERS.values(), ids=_READERS.keys())
@_FEWER
@given(raw=st.binary(max_size=400))
@example(raw=b"")
@example(raw=b"\x9f" * 400)
@example(raw=b"\x81" * 400)
def test_any_bytes(read: Callable[[bytes], object], raw: bytes) -> None:
    with contextlib.suppress(RemoteError):
        read(raw)


@pytest.mark.parametrize("read", _READERS.values(), ids=_READERS.keys())
@_FEWER
@given(raw=st.sampled_from(_CORPUS), data=st.data())
def test_any_split_truncation_or_flip(read: Callable[[bytes], object], raw: bytes, data: st.DataObject) -> None:
    if not raw:
        return
    place = data.draw(st.integers(0, len(raw) - 1))
    flipped = bytearray(raw)
    flipped[place] ^= 1 << data.draw(st.integers(0, 7))
    inserted = raw[:place] + data.draw(st.binary(min_size=1, max_size=9)) + raw[place:]
    for changed in (bytes(flipped), raw[:place], raw[place:], inserted, raw + raw):
        with contextlib.suppress(RemoteError):
            read(changed)


@pytest.mark.parametrize("read", _READERS.values(), ids=_READERS.keys())
@_FEWER
@given(value=values)
def test_any_shape(read: Callable[[bytes], object], value: Any) -> None:
    with contextlib.suppress(RemoteError):
        read(cbor.encode(value))
    with contextlib.suppress(RemoteError):
        read(cbor.encode([bytes(64), cbor.encode(value)]))


@given(st.text())
@example("covey://join/1/")
@example("covey://join/1/A")
@example("covey://join/1/\u00e9")
def test_any_text_as_an_invite(text: str) -> None:
    for uri in (text, "covey://join/1/" + text):
        with contextlib.suppress(LocalError):
            invite.Invite.from_uri(uri)
