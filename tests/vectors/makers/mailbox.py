"""mailbox.json: bodies of MAILBOX messages, refused ones, blob ids, and which mailboxes messages go to."""

from __future__ import annotations

from typing import Any

from covey.core.ids import DeviceKey
from covey.core.mailbox.messages import (
    BlobEntry,
    Delete,
    DeviceRevoked,
    Error,
    Hello,
    Hook,
    MailboxWelcome,
    Notify,
    Pull,
    PullResponse,
    Push,
    PushAck,
    RegisterPush,
    RevokeDevice,
    UnregisterPush,
)
from covey.core.mailbox.pushing import blob_id_of, ranked
from covey.limits.mailbox import DELETED_RANGES, MAXIMUM_PULL_BLOBS
from tests.vectors.makers.cast import cbor, seeded

_ID, _KEY = seeded("blob", 16), DeviceKey(seeded("recipient"))


def _entry(cursor: int) -> BlobEntry:
    return BlobEntry(_ID, cursor, _KEY, b"sealed", 1_789_000_000_000_000)


def _entries(*cursors: int) -> bytes:
    return PullResponse(tuple(map(_entry, cursors)), has_more=False, max_cursor=9).to_wire()


_BODIES: list[tuple[str, bytes, str | None]] = [
    ("HELLO, the first one", Hello(1, "shed", 0).to_wire(), None),
    ("HELLO of another version", Hello(2, "shed", 7).to_wire(), "limit"),
    ("HELLO with a name that is too long", Hello(1, "n" * 257, 7).to_wire(), "limit"),
    ("WELCOME", MailboxWelcome(1, "1f" * 8, 500, 3).to_wire(), None),
    ("PUSH", Push(_ID, b"sealed", 0, _KEY).to_wire(), None),
    ("PUSH with an id that is too short", cbor([0x10, _ID[1:], b"sealed", 0, _KEY]), "malformed"),
    ("PUSH without a recipient", cbor([0x10, _ID, b"sealed", 0]), "malformed"),
    ("PUSH_ACK", PushAck(_ID, 501, 1_789_000_000_000_000).to_wire(), None),
    ("PULL", Pull(500, 0).to_wire(), None),
    ("PULL of more than is given", Pull(500, 100_000).to_wire(), None),
    ("PULL after less than nothing", cbor([0x20, -1, 0]), "malformed"),
    ("PULL_RESPONSE", PullResponse((_entry(501), _entry(503)), has_more=True, max_cursor=600).to_wire(), None),
    ("PULL_RESPONSE of nothing", PullResponse((), has_more=False, max_cursor=0).to_wire(), None),
    ("PULL_RESPONSE out of order", _entries(2, 1), "malformed"),
    ("PULL_RESPONSE with a cursor twice", _entries(2, 2), "malformed"),
    ("PULL_RESPONSE with the cursor 0", _entries(0), "malformed"),
    ("PULL_RESPONSE of too many", _entries(*range(1, MAXIMUM_PULL_BLOBS + 2)), "limit"),
    ("NOTIFY", Notify(_ID, 501, _KEY, 1_789_000_000_000_000, 320).to_wire(), None),
    ("DELETE", Delete(((1, 3), (5, 5))).to_wire(), None),
    ("DELETE of nothing", cbor([0x40, []]), "malformed"),
    ("DELETE of ranges that touch", cbor([0x40, [[1, 3], [4, 5]]]), "malformed"),
    ("DELETE of a range that ends before it begins", cbor([0x40, [[3, 1]]]), "malformed"),
    ("DELETE of too many ranges", cbor([0x40, [[2 * n, 2 * n] for n in range(1, DELETED_RANGES + 2)]]), "limit"),
    ("REVOKE_DEVICE", RevokeDevice(_KEY, b"manifests").to_wire(), None),
    ("DEVICE_REVOKED", DeviceRevoked(_KEY).to_wire(), None),
    ("REGISTER_PUSH", RegisterPush(Hook.WEBHOOK, "https://ntfy.example/shed").to_wire(), None),
    ("REGISTER_PUSH of an unknown kind", cbor([0x60, 4, ""]), "malformed"),
    ("REGISTER_PUSH with a target that is too long", cbor([0x60, 1, "t" * 257]), "limit"),
    ("UNREGISTER_PUSH of all", UnregisterPush(Hook.MQTT, "").to_wire(), None),
    ("ERROR", Error("limit", "the inbox is full", _ID).to_wire(), None),
    ("ERROR without a code", cbor([0xFF, None, "", _ID]), "malformed"),
    ("a number that 002 does not have", cbor([0x12, _ID]), "malformed"),
    ("PRESENCE, which is a message of its own", cbor([0x30]), "malformed"),
    ("no number", cbor([]), "malformed"),
    ("a field more", cbor([0x51, _KEY, 0]), "malformed"),
]


def make() -> dict[str, Any]:
    """Return the file."""
    mailboxes = [DeviceKey(seeded(f"mailbox {number}")) for number in range(4)]
    recipients = [DeviceKey(seeded(f"recipient {number}")) for number in range(3)]
    return {
        "bodies": [{"name": name, "bytes": body.hex(), "code": code} for name, body, code in _BODIES],
        "blob_ids": [
            {"name": name, "bytes": message.hex(), "blob_id": blob_id_of(message).hex(), "code": None}
            for name, message in (("of nothing", b""), ("of seven bytes", b"message"), ("of 32 bytes", seeded("m")))
        ],
        "orders": [
            {
                "name": f"for recipient {number}",
                "recipient": recipient.hex(),
                "mailboxes": [each.hex() for each in mailboxes],
                "in_order": [each.hex() for each in ranked(recipient, mailboxes)],
            }
            for number, recipient in enumerate(recipients)
        ],
    }
