"""content.json: files sealed with fixed keys, their offers, and what members say of them."""

from __future__ import annotations

import hashlib
from typing import Any

from covey.core.content.messages import ContentAcknowledgement, ContentPart, ContentPull
from covey.core.crypto import aead_seal, blake3_hash
from covey.core.group.manifest import secret_id
from covey.core.group.messages import SECRET_BYTES
from covey.core.history.files import ContentReference, FileOffer, bound_to, content_key
from covey.core.ids import ContentHash, DeviceKey, GroupId, NoisePublic
from covey.core.orders.sealing import seal_file_secret
from covey.limits.content import (
    CHUNK_BYTES,
    CONTENT_PULL_BYTES,
    MAXIMUM_CONTENT_BYTES,
    NEAR_LOOK_SPREAD_US,
    NEAR_LOOK_US,
)
from covey.limits.orders import MAXIMUM_SEALED_BYTES
from tests.vectors.makers.cast import ALICE, BOB, GROUP_ID, cbor, seeded

_SECRET = seeded("epoch")
_OWN_SECRET = seeded("file secret")
_FILE_ID, _NONCE = seeded("file", 16), seeded("file nonce", 24)


def _sealed(plain: bytes) -> bytes:
    return aead_seal(plain, bound_to(GROUP_ID, _FILE_ID), _NONCE, content_key(_SECRET, _FILE_ID))


def _file(name: str, start: bytes, zeros: int) -> dict[str, Any]:
    """Return a file of some bytes, then zeros."""
    sealed = _sealed(start + bytes(zeros))
    index = b"".join(blake3_hash(sealed[at : at + CHUNK_BYTES]) for at in range(0, len(sealed), CHUNK_BYTES))
    reference = ContentReference(
        ContentHash(blake3_hash(sealed)), ContentHash(blake3_hash(index)), _NONCE, len(start) + zeros
    )
    offer = FileOffer("model v2.bin", _FILE_ID, secret_id(_SECRET), reference)
    return {
        "name": name,
        "plain": start.hex(),
        "plain_repeat": ["00", zeros],
        "sealed_start": sealed[:32].hex(),
        "sealed_end": sealed[-16:].hex(),
        "sealed_size": len(sealed),
        "hash": reference.hash.hex(),
        "index": index.hex(),
        "index_hash": reference.index.hex(),
        "offer": offer.to_wire().hex(),
    }


def _offer(**changed: object) -> bytes:
    fields: dict[str, object] = {
        "name": "fw.bin",
        "file_id": _FILE_ID,
        "epoch_id": secret_id(_SECRET),
        "hash": seeded("hash"),
        "index": seeded("index"),
        "nonce": _NONCE,
        "size": 1,
    }
    fields.update(changed)
    return cbor([*list(fields.values())[:3], list(fields.values())[3:]])


def _offer_for_some(*further: object) -> bytes:
    return cbor(["fw.bin", _FILE_ID, bytes(32), [bytes(32), bytes(32), _NONCE, 1], *further])


_OFFERS: list[tuple[str, bytes, str | None]] = [
    ("one", _offer(), None),
    ("of nothing", _offer(size=0), None),
    ("of the largest size", _offer(size=MAXIMUM_CONTENT_BYTES), None),
    ("too large", _offer(size=MAXIMUM_CONTENT_BYTES + 1), "malformed"),
    ("a longest name", _offer(name="n" * 255), None),
    ("a name that is too long", _offer(name="n" * 256), "limit"),
    *(
        (f"the name {name!r}", _offer(name=name), "malformed")
        for name in ("", ".", "..", "a/b", "a\\b", "a\nb", " a", "a ", "c:", 'a"b', "\u202egnp.exe")
    ),
    ("a file id too short", _offer(file_id=bytes(15)), "malformed"),
    ("a nonce too short", _offer(nonce=bytes(23)), "malformed"),
    ("a hash too long", _offer(hash=bytes(33)), "malformed"),
    ("for some alone", _offer_for_some(bytes(177)), None),
    ("for more than a group has", _offer_for_some(bytes(MAXIMUM_SEALED_BYTES + 1)), "limit"),
    ("with a number in the place of what is sealed", _offer_for_some(1), "malformed"),
    ("two fields more", _offer_for_some(b"", b""), "malformed"),
]


def _secrets() -> list[dict[str, Any]]:
    """Secrets of files, sealed with fixed randomness, and what Bob reads in them."""
    bob, alice = BOB.noise_public, ALICE.noise_public
    as_given = GROUP_ID, ALICE.signing_public, _FILE_ID
    cases: list[tuple[str, list[NoisePublic], tuple[GroupId, DeviceKey, bytes], str | None]] = [
        ("for one device", [bob], as_given, None),
        ("for two devices", [alice, bob], as_given, None),
        ("for another device", [alice], as_given, "decryption"),
        ("copied: into another group", [bob], (GroupId(seeded("another group")), *as_given[1:]), "decryption"),
        ("copied: by another author", [bob], (GROUP_ID, BOB.signing_public, _FILE_ID), "decryption"),
        ("copied: for another file", [bob], (*as_given[:2], seeded("another file", 16)), "decryption"),
    ]
    found: list[dict[str, Any]] = []
    for name, readers, (group_id, author, file_id), code in cases:
        drawn = iter((seeded(f"ephemeral of a file {name}"), seeded(f"content of a file {name}")))
        sealed = seal_file_secret(_OWN_SECRET, readers, *as_given, lambda _, drawn=drawn: next(drawn))
        found.append(
            {
                "name": name,
                "group_id": group_id.hex(),
                "author": author.hex(),
                "file_id": file_id.hex(),
                "noise_secret": BOB.noise_secret.hex(),
                "bytes": sealed.hex(),
                "secret": _OWN_SECRET.hex() if code is None else None,
                "key": content_key(_OWN_SECRET, file_id).hex() if code is None else None,
                "code": code,
            }
        )
    return found


_HASH = ContentHash(seeded("hash"))
_OFFER_ID = ContentHash(seeded("offer"))
_BODIES: list[tuple[str, str, bytes, str | None]] = [
    ("pull", "one", ContentPull(_HASH, 65_536, CONTENT_PULL_BYTES).to_wire(), None),
    ("pull", "of a secret, by an offer's id", ContentPull(_OFFER_ID, 0, SECRET_BYTES).to_wire(), None),
    ("pull", "of nothing", ContentPull(_HASH, 0, 0).to_wire(), "malformed"),
    ("pull", "of too much", ContentPull(_HASH, 0, CONTENT_PULL_BYTES + 1).to_wire(), "malformed"),
    ("pull", "beyond the largest file", ContentPull(_HASH, MAXIMUM_CONTENT_BYTES + 17, 1).to_wire(), "malformed"),
    ("part", "one", ContentPart(_HASH, 0, b"part").to_wire(), None),
    ("part", "a secret", ContentPart(_OFFER_ID, 0, _SECRET).to_wire(), None),
    ("part", "that is not there", ContentPart(_HASH, 0, None).to_wire(), None),
    ("part", "without content", cbor([_HASH, 0]), "malformed"),
    ("acknowledgement", "one", ContentAcknowledgement(_HASH).to_wire(), None),
    ("acknowledgement", "of no hash", cbor([bytes(31)]), "malformed"),
]


def _nearby(name: str, content: bytes, salt: bytes, device: bytes) -> dict[str, Any]:
    """Return by what a peer is asked for a file, and how long a device looks for it, by their formulas."""
    tag = hashlib.blake2b(salt, key=content, digest_size=32, person=b"covey/1 lan tag".ljust(16, b"\0")).hexdigest()
    drawn = int.from_bytes(hashlib.blake2b(device + content, digest_size=8).digest(), "big")
    words = {"hash": content, "salt": salt, "device": device}
    look_us = NEAR_LOOK_US + drawn % NEAR_LOOK_SPREAD_US
    return {"name": name, **{key: each.hex() for key, each in words.items()}, "tag": tag, "look_us": look_us}


def make() -> dict[str, Any]:
    """Return the file."""
    return {
        "about": "`files` are sealed for a group with the epoch's secret, the file's id and the nonce given; `offers` "
        "are bodies of operations of the kind file, `bodies` of messages. `nearby`: the tag by which a peer of a salt "
        "is asked for what has a hash, and the microseconds for which a device looks for it nearby. `secrets`: those "
        "of files that are for some alone, and what Bob reads, or the code with which he cannot.",
        "group_id": GROUP_ID.hex(),
        "epoch_secret": _SECRET.hex(),
        "epoch_id": secret_id(_SECRET).hex(),
        "file_id": _FILE_ID.hex(),
        "nonce": _NONCE.hex(),
        "key": content_key(_SECRET, _FILE_ID).hex(),
        "files": [
            _file("empty", b"", 0),
            _file("a few bytes", b"hello", 0),
            _file("a chunk with its tag", b"", CHUNK_BYTES - 16),
            _file("a byte more", b"", CHUNK_BYTES - 15),
            _file("three chunks", b"begin", 2 * CHUNK_BYTES),
        ],
        "nearby": [
            _nearby(f"number {each}", seeded(f"hash {each}"), seeded(f"salt {each}", 16), seeded(f"device {each}"))
            for each in range(3)
        ],
        "offers": [{"name": name, "bytes": body.hex(), "code": code} for name, body, code in _OFFERS],
        "secrets": _secrets(),
        "bodies": [
            {"name": f"{kind}: {name}", "kind": kind, "bytes": body.hex(), "code": code}
            for kind, name, body, code in _BODIES
        ],
    }
