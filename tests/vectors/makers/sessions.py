"""sessions.json: everything that two devices send each other while one joins, one measures, and the other one orders.

All randomness is drawn from the devices' names, so that keys, nonces and numbers are always the same.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from covey.core.group.manifest import COLLECTOR
from covey.core.history.orders import SettingOrder
from covey.core.link.link_keys import LinkTerms
from covey.core.link.sealer import Outgoing
from covey.core.orders.selector import EVERYBODY
from covey.core.telemetry.batch import BatchBuilder, ClockKind, ClockReading
from covey.core.wire import cbor
from covey.core.wire.envelope import SealedEnvelope, read_envelope, seal
from covey.core.wire.message import MessageType, read_message, write_message
from tests.fleet import Device
from tests.vectors.makers.cast import BOOT_ID, NOW_US, seeded

_NO_LINKS = LinkTerms(after=2**31)
"""Every envelope is sealed, so that each can be opened by itself."""


class _Session:
    """Two devices, and what they have sent."""

    def __init__(self, folder: Path) -> None:
        self.ann = Device("ann", folder, terms=_NO_LINKS)
        self.ben = Device("ben", folder, terms=_NO_LINKS)
        self.steps: list[dict[str, Any]] = []

    def carry(self, phase: str) -> None:
        """Carry envelopes until nobody has any, and record them."""
        while True:
            for device in (self.ann, self.ben):
                device.node.make_acknowledgements_due(device.now)
            moving = [(device, each) for device in (self.ann, self.ben) for each in device.sends()]
            for author, outgoing in moving:
                self._deliver(phase, author, outgoing)
            if not moving:
                return

    def _deliver(self, phase: str, author: Device, outgoing: Outgoing) -> None:
        recipient = self.ben if author is self.ann else self.ann
        opened = read_envelope(outgoing.envelope)
        assert isinstance(opened, SealedEnvelope)
        raw = opened.open(recipient.identity.noise_secret)
        message = read_message(raw)
        self.steps.append(
            {
                "name": f"{len(self.steps) + 1}: {phase}",
                "from": author.name,
                "to": recipient.name,
                "topic": outgoing.topic,
                "bytes": outgoing.envelope.hex(),
                "message": raw.hex(),
                "type": message.type.name,
                "group_id": message.group_id.hex(),
                "link_seq": message.link_seq,
                "body": message.body.hex(),
                "code": None,
            }
        )
        recipient.receive(outgoing.envelope)


def _batch() -> bytes:
    builder = BatchBuilder()
    builder.add("cellar/temperature", "Cel", 900_000, 21.5)
    return builder.body(ClockReading(BOOT_ID, 1_000_000, NOW_US, ClockKind.SYNCHRONISED))


def _refused(session: _Session) -> list[dict[str, Any]]:
    """Return what a relay, a stranger or a member may make of the blob's envelope, each for the same recipient."""
    [step] = [each for each in session.steps if each["type"] == "BLOB"]
    recipient, author = (session.ann, session.ben) if step["to"] == "ann" else (session.ben, session.ann)
    envelope, raw = bytes.fromhex(step["bytes"]), bytes.fromhex(step["message"])
    signature, signed = cbor.decode(raw, len(raw))
    keys = recipient.identity.noise_public, seeded("a forger's key"), seeded("a forger's nonce", 24)
    forged = cbor.encode([bytes([signature[0] ^ 1]) + signature[1:], signed])
    message = read_message(raw)
    redirected = write_message(
        author.identity, message.type, author.key, message.group_id, message.incarnation,
        message.seq, message.link_seq, message.sent_at_us, message.body,
    )  # fmt: skip
    rows = [
        ("cut short", "malformed", envelope[:-1]),
        ("with one byte more", "malformed", envelope + b"\0"),
        ("one bit of the ciphertext changed", "decryption", envelope[:-1] + bytes([envelope[-1] ^ 1])),
        ("of a form that nobody knows", "unsupported", cbor.encode([9, *cbor.decode(envelope, len(envelope))[1:]])),
        ("the message with another signature", "signature", seal(forged, *keys)),
        ("the message for another device", "not_for_us", seal(redirected, *keys)),
        ("no message", "malformed", seal(b"hello", *keys)),
    ]
    return [{"name": name, "to": step["to"], "bytes": raw.hex(), "code": code} for name, code, raw in rows]


def make() -> dict[str, Any]:
    """Return the file."""
    with tempfile.TemporaryDirectory() as folder:
        session = _Session(Path(folder))
        ann, ben = session.ann, session.ben
        with ann.store.transaction():
            group_id = ann.node.membership.create("ann", (COLLECTOR,), ann.now.wall_us).group_id
            invite = ann.node.joining.invite(group_id, (), "mqtts://relay.example", ann.now.wall_us)
        with ben.store.transaction():
            ben.node.actions.request_join(invite, "ben", ben.now)
        session.carry("ben joins")
        ben.batch(group_id, _batch())
        session.carry("ben sends a reading; it waits for the vault of ann")
        with ann.store.transaction():
            ann.node.history.write(group_id, SettingOrder(EVERYBODY, "telemetry.interval_s", 10), ann.now)
        session.carry("ann sets the interval of all")
        ben.blob(group_id, b"hello")
        session.carry("ben sends a blob")
        for device in (ann, ben):
            device.wait(120)
            device.maintain()
        session.carry("both ask how their groups stand")
        for device in (ann, ben):
            device.stop()
    return {
        "about": "Sections 3 to 11, 23 and 24. Every envelope of one session, in order: `bytes` is what a relay sees, "
        "`message` what it opens to. The recipient of each step has received all steps before it. "
        "`refused`: what a relay, a stranger or a member may make of one of them.",
        "keys": {
            device.name: {
                "signing_seed": device.identity.signing_seed.hex(),
                "signing_public": device.key.hex(),
                "noise_secret": device.identity.noise_secret.hex(),
                "noise_public": device.identity.noise_public.hex(),
            }
            for device in (ann, ben)
        },
        "group_id": group_id.hex(),
        "invite": invite.to_uri(),
        "steps": session.steps,
        "refused": _refused(session),
        "types": sorted({step["type"] for step in session.steps if step["type"] in MessageType.__members__}),
    }
