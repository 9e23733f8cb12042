"""envelopes.json: sealing with fixed keys and nonces gives these bytes; damaged ones fail like this."""

from __future__ import annotations

from typing import Any

from covey.core import crypto
from covey.core.crypto import Identity
from covey.core.wire import envelope
from tests.vectors.makers.cast import ALICE, BOB, MALLORY, cbor, flip, keys, seeded

_EPHEMERAL = seeded("ephemeral")
_NONCE = seeded("nonce", 24)
_SMALL_ORDER = [
    ("zero", bytes(32)),
    ("one", b"\x01" + bytes(31)),
    ("order eight", bytes.fromhex("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800")),
]


def _sealed(padded: bytes, recipient: Identity = BOB) -> bytes:
    """Seal exactly these bytes, padded or not."""
    ciphertext = crypto.box_seal(padded, _NONCE, recipient.noise_public, _EPHEMERAL)
    return cbor([1, crypto.scalar_base(_EPHEMERAL), _NONCE, ciphertext])


def make() -> dict[str, Any]:
    """Return the file."""
    messages = [
        ("nothing", b""),
        ("one byte", b"\x2a"),
        ("63 bytes fill the smallest size", seeded("63", 63)),
        ("64 bytes need the next", seeded("64", 64)),
        ("65 bytes", seeded("64", 64) + b"\x01"),
        ("ends like padding", b"covey\x80\x00\x00"),
        ("only zeros", bytes(100)),
        ("1,000 bytes", b"".join(seeded(f"1000-{part}", 50) for part in range(20))),
    ]
    vectors: list[dict[str, Any]] = [
        {
            "name": name,
            "recipient": "bob",
            "ephemeral_secret": _EPHEMERAL.hex(),
            "nonce": _NONCE.hex(),
            "message": message.hex(),
            "bytes": envelope.seal(message, BOB.noise_public, _EPHEMERAL, _NONCE).hex(),
            "code": None,
        }
        for name, message in messages
    ]
    good = envelope.seal(b"covey", BOB.noise_public, _EPHEMERAL, _NONCE)
    public, ciphertext = crypto.scalar_base(_EPHEMERAL), good[-80:]
    mine = envelope.seal(b"covey", MALLORY.noise_public, _EPHEMERAL, _NONCE)
    refused = [
        ("sealed for another device", "decryption", mine),
        ("a bit of the ciphertext flipped", "decryption", flip(good, -1)),
        ("a bit of the authenticator flipped", "decryption", flip(good, -80)),
        ("a bit of the nonce flipped", "decryption", cbor([1, public, flip(_NONCE, 3), ciphertext])),
        ("another ephemeral key", "decryption", cbor([1, ALICE.noise_public, _NONCE, ciphertext])),
        *(
            (f"ephemeral key of small order: {name}", "decryption", cbor([1, point, _NONCE, ciphertext]))
            for name, point in _SMALL_ORDER
        ),
        (
            "ephemeral key with its top bit set, which X25519 ignores",
            "decryption",
            cbor([1, flip(public, 31, 7), _NONCE, ciphertext]),
        ),
        ("ciphertext cut", "decryption", cbor([1, public, _NONCE, ciphertext[:-1]])),
        ("ciphertext shorter than its authenticator", "decryption", cbor([1, public, _NONCE, ciphertext[:15]])),
        ("no ciphertext", "decryption", cbor([1, public, _NONCE, b""])),
        ("envelope cut", "malformed", good[:-1]),
        ("a byte after the envelope", "malformed", good + b"\x00"),
        ("nothing at all", "malformed", b""),
        ("version 0", "malformed", cbor([0, public, _NONCE, ciphertext])),
        ("version 2 of the same shape", "malformed", cbor([2, public, _NONCE, ciphertext])),
        ("a link envelope, which is not for this reader", "malformed", cbor([2, b"tag", 7, ciphertext])),
        ("version as text", "malformed", cbor(["1", public, _NONCE, ciphertext])),
        ("version not minimal", "malformed", b"\x84\x18\x01" + good[2:]),
        ("a field missing", "malformed", cbor([1, public, ciphertext])),
        ("a field too many", "malformed", cbor([1, public, _NONCE, ciphertext, None])),
        ("a map", "malformed", cbor({0: 1, 1: public, 2: _NONCE, 3: ciphertext})),
        ("ephemeral key of 31 bytes", "malformed", cbor([1, public[:31], _NONCE, ciphertext])),
        ("nonce of 23 bytes", "malformed", cbor([1, public, _NONCE[:23], ciphertext])),
        ("ciphertext as text", "malformed", cbor([1, public, _NONCE, "x" * 80])),
        ("not padded", "malformed", _sealed(b"covey")),
        ("padded with zeros alone", "malformed", _sealed(b"covey".ljust(64, b"\0"))),
        ("only zeros inside", "malformed", _sealed(bytes(64))),
        ("padded to a size that is not PADM\u00c9's", "malformed", _sealed(b"covey\x80".ljust(65, b"\0"))),
        ("padded to the next size", "malformed", _sealed(b"covey\x80".ljust(72, b"\0"))),
        ("empty inside", "malformed", _sealed(b"")),
    ]
    vectors += [{"name": name, "recipient": "bob", "bytes": raw.hex(), "code": code} for name, code, raw in refused]
    lengths = [0, 1, 63, 64, 65, 66, 100, 127, 128, 129, 1_000, 4_097, 65_537, 1_000_001]
    return {
        "about": "Section 4. `for_signing_keys` are sealed for signing keys. "
        "`padded` gives PADM\u00c9 lengths, the marker byte counted.",
        "keys": keys(),
        "vectors": vectors,
        "for_signing_keys": [
            {
                "name": "sealed for bob's signing key",
                "code": None,
                "recipient": "bob",
                "message": b"covey".hex(),
                "ephemeral_secret": _EPHEMERAL.hex(),
                "nonce": _NONCE.hex(),
                "bytes": envelope.seal(b"covey", crypto.sealing_key(BOB.signing_public), _EPHEMERAL, _NONCE).hex(),
            }
        ],
        "padded": [[length, envelope.padded_length(length)] for length in lengths],
    }
