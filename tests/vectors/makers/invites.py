"""invites.json: invite URIs, and the bodies of join requests."""

from __future__ import annotations

import base64
from typing import Any

from covey.core.ids import DeviceKey
from covey.core.membership.requests import GroupInvite
from covey.core.membership.unknown_groups import request_to_wire
from covey.core.pairing.invite import Invite, JoinRequest
from covey.core.pairing.preview import GroupPreview
from covey.limits.pairing import NAMED_OPERATORS, PREVIEWED_MEMBERS
from tests.vectors.makers.cast import ALICE, BOB, GROUP_ID, NOW_US, cbor, flip, keys, seeded

_SECRET = seeded("invite", 16)
_EXPIRES_US = NOW_US + 600_000_000
_OPERATORS = tuple(sorted(DeviceKey(seeded(f"operator {number}", 32)) for number in range(NAMED_OPERATORS)))
_RELAY = "mqtts://broker.example:8883"
_ADDRESSES = ("hub.local:8883", "192.0.2.7:8883", "[2001:db8::7]:8883", "x" * 123 + ":8883")


def _uri(fields: list[object] | bytes) -> str:
    raw = fields if isinstance(fields, bytes) else cbor(fields)
    return "covey://join/1/" + base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _fields(**changed: object) -> list[object]:
    fields: dict[str, object] = {
        "version": 1,
        "group_id": GROUP_ID,
        "signing": ALICE.signing_public,
        "noise": ALICE.noise_public,
        "secret": _SECRET,
        "expires": _EXPIRES_US,
        "relay": _RELAY,
    }
    fields.update(changed)
    return list(fields.values())


def _invites() -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = []
    for name, relay, rendezvous, enrolment, operators, addresses in [
        ("an invite", _RELAY, None, None, (), ()),
        ("without a relay", "", None, None, (), ()),
        ("with the longest relay", "x" * 512, None, None, (), ()),
        ("with a rendezvous", _RELAY, 42, None, (), ()),
        ("with the last rendezvous", _RELAY, 9_999, None, (), ()),
        ("with the enrolment account's password", _RELAY, 42, "k3xq7bm2", (), ()),
        ("with an operator", _RELAY, None, None, _OPERATORS[:1], ()),
        ("with a rendezvous and operators", _RELAY, 42, None, _OPERATORS[:2], ()),
        ("with an address", _RELAY, None, None, (), _ADDRESSES[:1]),
        ("with a rendezvous and addresses", _RELAY, 42, "k3xq7bm2", (), _ADDRESSES[:2]),
        ("with all that there can be", "x" * 512, 9_999, "x" * 64, _OPERATORS, _ADDRESSES),
    ]:
        invite = Invite(GROUP_ID, ALICE.keys, _SECRET, _EXPIRES_US, relay, rendezvous, enrolment, operators, addresses)
        entries.append(
            {
                "name": name,
                "text": invite.to_uri(),
                "group_id": GROUP_ID.hex(),
                "inviter": "alice",
                "secret": _SECRET.hex(),
                "secret_hash": invite.secret_hash.hex(),
                "expires_at_us": _EXPIRES_US,
                "relay_url": relay,
                "rendezvous": rendezvous,
                "enrolment": enrolment,
                "operators": [each.hex() for each in operators],
                "addresses": list(addresses),
                "code": None,
            }
        )
    good = _uri(_fields())
    refused = [
        ("nothing", ""),
        ("another scheme", good.replace("covey:", "https:")),
        ("another version of the scheme", good.replace("/1/", "/2/")),
        ("the scheme alone", "covey://join/1/"),
        ("cut", good[:-4]),
        ("cut by one character", good[:-1]),
        ("with something behind it", good + "AA"),
        ("with a space in it", good[:40] + " " + good[40:]),
        ("with a letter that is not base64url", good[:40] + "\u00e9" + good[41:]),
        ("version 2", _uri(_fields(version=2))),
        ("secret of 15 bytes", _uri(_fields(secret=_SECRET[:15]))),
        ("a key of 31 bytes", _uri(_fields(noise=bytes(31)))),
        ("a field missing", _uri(_fields()[:-1])),
        ("expires before the epoch", _uri(_fields(expires=-1))),
        ("relay longer than allowed", _uri(_fields(relay="x" * 513))),
        ("rendezvous 0", _uri(_fields(rendezvous=0))),
        ("rendezvous 10000", _uri(_fields(rendezvous=10_000))),
        ("a number for the password", _uri([*_fields(rendezvous=42), 0])),
        ("an empty password", _uri([*_fields(rendezvous=42), ""])),
        ("a password of 65 bytes", _uri([*_fields(rendezvous=42), "x" * 65])),
        ("a field after the password", _uri([*_fields(rendezvous=42), "x", 0])),
        ("no operators", _uri([*_fields(), None, None, []])),
        ("an operator twice", _uri([*_fields(), None, None, [_OPERATORS[0], _OPERATORS[0]]])),
        ("operators that descend", _uri([*_fields(), None, None, [_OPERATORS[1], _OPERATORS[0]]])),
        ("an operator of 31 bytes", _uri([*_fields(), None, None, [bytes(31)]])),
        ("nine operators", _uri([*_fields(), None, None, [*_OPERATORS, bytes([255] * 32)]])),
        ("operators with a password for no rendezvous", _uri([*_fields(), None, "x", [_OPERATORS[0]]])),
        ("a number for the addresses", _uri([*_fields(), None, None, [_OPERATORS[0]], 0])),
        ("no addresses", _uri([*_fields(), None, None, [_OPERATORS[0]], []])),
        ("nothing for the addresses", _uri([*_fields(), None, None, [_OPERATORS[0]], None])),
        ("an address twice", _uri([*_fields(), None, None, None, [_ADDRESSES[0], _ADDRESSES[0]]])),
        ("an address of 129 bytes", _uri([*_fields(), None, None, None, ["x" * 129]])),
        ("five addresses", _uri([*_fields(), None, None, None, [*_ADDRESSES, "hub2.local:8883"]])),
        ("a field after the addresses", _uri([*_fields(), None, None, None, [_ADDRESSES[0]], 0])),
        ("longer than any", _uri(_fields(relay="x" * 2_000))),
        ("not deterministic", _uri(b"\x87\x18\x01" + cbor(_fields())[2:])),
    ]
    return entries + [{"name": name, "text": uri, "code": "local"} for name, uri in refused]


def _requests() -> list[dict[str, Any]]:
    label = "pi in the b\u00fcro"
    good = JoinRequest(_SECRET, BOB.noise_public, label).to_wire()
    small_order = bytes.fromhex("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800")
    entries: list[dict[str, Any]] = [
        {
            "name": "a request",
            "bytes": good.hex(),
            "secret": _SECRET.hex(),
            "noise_public": BOB.noise_public.hex(),
            "label": label,
            "code": None,
        }
    ]
    refused = [
        ("cut", "malformed", good[:-1]),
        ("a byte after it", "malformed", good + b"\x00"),
        ("secret of 15 bytes", "malformed", cbor([_SECRET[:15], BOB.noise_public, ""])),
        ("key of zeros", "malformed", cbor([_SECRET, bytes(32), ""])),
        ("key of small order", "malformed", cbor([_SECRET, small_order, ""])),
        ("key with its top bit set", "malformed", cbor([_SECRET, flip(BOB.noise_public, 31, 7), ""])),
        ("label of 65 bytes", "limit", cbor([_SECRET, BOB.noise_public, "x" * 65])),
        ("label as bytes", "malformed", cbor([_SECRET, BOB.noise_public, b"x"])),
        ("longer than any", "limit", cbor([_SECRET, BOB.noise_public, "x" * 600])),
    ]
    return entries + [{"name": name, "bytes": raw.hex(), "code": code} for name, code, raw in refused]


_DESCRIBED = ("All pumps of the site", ("image/png", b"\x89PNG"))


def _group_invites() -> list[dict[str, Any]]:
    shown = GroupPreview("Pumps", 40, ((ALICE.signing_public, "workshop"), (BOB.signing_public, "")), *_DESCRIBED)
    good = GroupInvite(_SECRET, ALICE.noise_public, _EXPIRES_US, shown).to_wire()
    entries: list[dict[str, Any]] = [
        {
            "name": "an invitation",
            "bytes": good.hex(),
            "secret": _SECRET.hex(),
            "noise_public": ALICE.noise_public.hex(),
            "expires_at_us": _EXPIRES_US,
            "preview": {
                "title": "Pumps",
                "count": 40,
                "labels": ["workshop", ""],
                "description": _DESCRIBED[0],
                "picture": [_DESCRIBED[1][0], _DESCRIBED[1][1].hex()],
            },
            "code": None,
        }
    ]
    preview = shown.to_wire()

    def invited(preview: list[object]) -> bytes:
        return cbor([_SECRET, ALICE.noise_public, 1, preview])

    many = [[ALICE.signing_public, ""]] * (PREVIEWED_MEMBERS + 1)
    refused = [
        ("a title too long", "limit", invited(["x" * 129, 1, [], "", None])),
        ("too many members shown", "limit", invited(["", 1_000, many, "", None])),
        (
            "more members than a group has",
            "malformed",
            cbor([_SECRET, ALICE.noise_public, 1, ["", 1_001, [], "", None]]),
        ),
        ("cut", "malformed", good[:-1]),
        ("without a preview", "malformed", cbor([_SECRET, ALICE.noise_public, 1])),
        ("secret of 17 bytes", "malformed", cbor([_SECRET + b"x", ALICE.noise_public, 1, preview])),
        ("key of zeros", "malformed", cbor([_SECRET, bytes(32), 1, preview])),
        ("expires before the epoch", "malformed", cbor([_SECRET, ALICE.noise_public, -1, preview])),
        ("longer than any", "limit", bytes(65_536)),
        (
            "a picture that is none",
            "malformed",
            invited(["", 1, [], "", ["text/html", b""]]),
        ),
        ("a description too long", "limit", invited(["", 1, [], "x" * 4_097, None])),
    ]
    return entries + [{"name": name, "bytes": raw.hex(), "code": code} for name, code, raw in refused]


def _invite_requests() -> list[dict[str, Any]]:
    good = request_to_wire()
    entries: list[dict[str, Any]] = [{"name": "a request for an invite", "bytes": good.hex(), "code": None}]
    refused = [
        ("nothing", "malformed", b""),
        ("a byte after it", "malformed", good + b"\x00"),
        ("a field", "malformed", cbor([1])),
        ("longer than any", "limit", bytes(2_000)),
    ]
    return entries + [{"name": name, "bytes": raw.hex(), "code": code} for name, code, raw in refused]


def make() -> dict[str, Any]:
    """Return the file."""
    return {
        "about": "Section 10.",
        "keys": keys(),
        "vectors": _invites(),
        "requests": _requests(),
        "group_invites": _group_invites(),
        "invite_requests": _invite_requests(),
    }
