"""Link keys: cheaper envelopes between two devices that exchange many messages (docs/protocol/core.md, "Link keys").

A LINK message, always sealed, gives its recipient a random tag and a random key of its author, and names a group and
the author's incarnation. From then on the author may write link envelopes: `crypto_secretbox` under that key, with the
tag and a counter as the nonce. Messages of that group and incarnation go in short form (`wire/short.py`). Rules:

    1. The author keeps its side in memory only: a new process draws other keys, and so never repeats a counter.
    2. A key is used once an acknowledgement covers its LINK, because then the recipient has it durably. Until then, and
       whenever that is uncertain, envelopes are sealed. So nothing waits for a key or depends on one.
    3. Only the first transmission of a message, and notes (`wire/note.py`), use link keys. Everything else is sealed:
       so ordinary repetition reaches a recipient that has lost the key. Of notes that nobody answers, one in
       `LINK_NOTES_UNANSWERED` is signed and sealed instead.
    4. A key ends as soon as the recipient may not have it: a message under it must be sent again, the recipient repeats
       something that this device has acknowledged, or the recipient has another noise key. Its successor begins at
       once (but see 5). A key also ends by age and by number of envelopes.
    5. A link begins after a number of sealed envelopes for one device within the lifetime of a key, if this process has
       received something from that device: rare and absent peers are never worth it. The successor of a worn key begins
       before the key ends. That of a key that ended by rule 4 before it had made good its cost begins as a first one
       does, each after twice as many envelopes: on a crowded relay, where everything is repeated, keys would fail as
       fast as they are given, and their LINKs would crowd it further.
    6. A recipient keeps the newest few keys of each author, durably, for a bounded time. They are sealed under the
       noise key that their LINK was sealed for, and are deleted with it: a link key must not reveal what a passphrase
       or a rotation protects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from covey.core import crypto
from covey.core.crypto import Identity, NoiseKey, NoiseKeys, Secret
from covey.core.ids import (
    GROUP_ID_BYTES,
    INCARNATION_BYTES,
    KEY_BYTES,
    DeviceKey,
    GroupId,
    Incarnation,
    NoisePublic,
    Place,
)
from covey.core.wire import cbor
from covey.core.wire.envelope import TAG_BYTES, LinkEnvelope, read_envelope, seal_by_link
from covey.core.wire.message import NO_GROUP, Message, MessageType, group_of, read_message, type_of
from covey.core.wire.sequences import SequenceSet
from covey.core.wire.short import BOOT_ID_BYTES, Implied, ImpliedBatch, is_short, restore, shorten
from covey.errors import DecryptionError, MalformedError
from covey.limits.link_key import (
    LINK_AFTER_ENVELOPES,
    LINK_DOUBLINGS,
    LINK_KEY_ENVELOPES,
    LINK_KEY_US,
    LINK_NOTES_UNANSWERED,
    MAXIMUM_LINK_NAMES_BYTES,
)
from covey.limits.telemetry import MAXIMUM_NAME_BYTES

_LINK_BYTES = 192 + MAXIMUM_LINK_NAMES_BYTES
_WORN = 8
"""A key has its successor begun when no more than this fraction of its lifetime is left."""


_GROWS = 16
"""For this fraction of its lifetime a key stays although there are more series than it names."""


class LinkTerms(NamedTuple):
    """When a link is begun, and how long its key is used: envelopes, envelopes, microseconds."""

    after: int = LINK_AFTER_ENVELOPES
    envelopes: int = LINK_KEY_ENVELOPES
    age_us: int = LINK_KEY_US


DEFAULT_TERMS = LinkTerms()


@dataclass(frozen=True, slots=True)
class LinkKey:
    """What a LINK gives to its recipient; `author` alone writes under it."""

    author: DeviceKey
    tag: bytes
    key: Secret = field(repr=False, compare=False)
    named: tuple[GroupId, Incarnation] | None = None
    """What short messages under the key leave out; None: there are none, as a board writes none."""
    batch: ImpliedBatch | None = None
    """What short telemetry leaves out in addition."""

    def to_wire(self) -> bytes:
        """Return the body `[tag, key]`, the group and the incarnation after it, and what is known of batches."""
        batch = () if self.batch is None else self.batch.fields()
        return cbor.encode_growing([self.tag, self.key.reveal(), *(self.named or ()), *batch])

    def implied(self, recipient: DeviceKey) -> Implied | None:
        """Return what short messages to the key's recipient leave out."""
        return None if self.named is None else Implied(self.author, recipient, *self.named, self.batch)

    @classmethod
    def from_wire(cls, author: DeviceKey, body: bytes) -> LinkKey:
        """Parse the body.

        Raises:
            RemoteError: malformed.
        """
        fields = cbor.decode_growing(body, _LINK_BYTES)
        count = len(fields) if isinstance(fields, list) else 0
        further = (*(_NAMED if count > _BARE else ()), *(_BATCH if count > _BARE + len(_NAMED) else ()))
        tag, key, *names = cbor.record(fields, "link", cbor.octets(TAG_BYTES), cbor.octets(KEY_BYTES), *further)
        named = (GroupId(names[0]), Incarnation(names[1])) if names else None
        return cls(author, tag, Secret(key), named, ImpliedBatch(*names[2:]) if len(names) > len(_NAMED) else None)


def _read_names(value: object) -> bytes:
    names = cbor.octets_to(MAXIMUM_LINK_NAMES_BYTES)(value)
    if len(_NAMES(cbor.decode(names, MAXIMUM_LINK_NAMES_BYTES))) % 2:
        raise MalformedError("link: a name without a unit")
    return names


_NAMES = cbor.many(cbor.text(MAXIMUM_NAME_BYTES), MAXIMUM_LINK_NAMES_BYTES)
_BARE = 2
_NAMED = (cbor.octets(GROUP_ID_BYTES), cbor.octets(INCARNATION_BYTES))
_BATCH = (cbor.octets(BOOT_ID_BYTES), cbor.uint(), cbor.uint(), _read_names)


@dataclass(frozen=True, slots=True)
class KeptKey:
    """A link key at rest: sealed under one of our noise keys."""

    author: DeviceKey
    tag: bytes
    noise_public: NoisePublic
    sealed: bytes = field(repr=False)

    @classmethod
    def of(cls, link: LinkKey, recipient: DeviceKey, noise: NoiseKey, nonce: bytes) -> KeptKey:
        """Seal a link key for its recipient. `nonce` must be fresh random bytes."""
        implied = link.implied(recipient)
        content = link.key.reveal() + (b"" if implied is None else implied.to_bytes())
        sealed = nonce + crypto.secretbox_seal(content, nonce, _at_rest(noise))
        return cls(link.author, link.tag, noise.public, sealed)

    def key(self, noise: NoiseKeys) -> tuple[bytes, Implied | None]:
        """Return the link key, and what short messages under it leave out.

        Raises:
            DecryptionError: the noise key is gone, or the bytes are damaged.
        """
        for each in noise.keys:
            if each.public == self.noise_public:
                nonce, sealed = self.sealed[: crypto.NONCE_BYTES], self.sealed[crypto.NONCE_BYTES :]
                content = crypto.secretbox_open(sealed, nonce, _at_rest(each))
                key, implied = content[:KEY_BYTES], content[KEY_BYTES:]
                return key, Implied.from_bytes(implied) if implied else None
        raise DecryptionError("envelope does not open")


def _at_rest(noise: NoiseKey) -> bytes:
    return crypto.digest(b"covey/1 linkkeys", noise.secret.reveal())


# -- receiving --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Opened:
    """What was in an envelope; `sealed_for` is the noise key that opened it, None for one that came by a link.

    A short message is restored, so `message` is a note or a whole message. `by_signing_key` says that the envelope was
    sealed for the signing key.
    """

    message: bytes = field(repr=False)
    sealed_for: NoiseKey | None
    author: DeviceKey | None
    by_signing_key: bool = False

    def check_author(self, message: Message) -> None:
        """Refuse another device's message in an author's link, and what may not be sealed for a signing key.

        Raises:
            DecryptionError: the first is so.
            MalformedError: the second.
        """
        if self.author is not None and message.author != self.author:
            raise DecryptionError("envelope does not open")
        if self.by_signing_key and message.type is not MessageType.HEADS:
            raise MalformedError("only a report of groups is sealed for a signing key")


def open_envelope(raw: bytes, identity: Identity, find: Callable[[bytes], KeptKey | None]) -> Opened:
    """Open an envelope by a noise key, a link key, or the signing key.

    Raises:
        LimitError: larger than any envelope; nothing was parsed.
        MalformedError: not an envelope of a known version, or badly padded.
        DecryptionError: for none of our keys, or tampered with.
    """
    envelope = read_envelope(raw)
    if isinstance(envelope, LinkEnvelope):
        kept = find(envelope.tag)
        if kept is None:
            raise DecryptionError("envelope does not open")
        link_key, implied = kept.key(identity.noise)
        plaintext = envelope.open(link_key)
        if implied is not None and is_short(plaintext):
            plaintext = restore(plaintext, implied)
        return Opened(plaintext, None, kept.author)
    for key in identity.noise.keys:
        try:
            return Opened(envelope.open(key.secret.reveal()), key, None)
        except DecryptionError:
            continue
    return Opened(envelope.open(identity.sealing_secret), None, None, by_signing_key=True)


# -- sending ----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _SendKey:
    """A key that this process has drawn; `place` is that of its LINK in the recipient's queue."""

    link: LinkKey
    address: NoisePublic
    begun_us: int
    place: Place
    implied: Implied | None
    counter: int = 0
    unanswered: int = 0
    """Notes that nobody answers, under this key or instead of under it."""


class SendingLinks:
    """The author's side of this device's link keys (rules 1 to 5)."""

    def __init__(self, author: DeviceKey, rng: Callable[[int], bytes], terms: LinkTerms) -> None:
        self._author = author
        self._rng = rng
        self._terms = terms
        self._used: dict[DeviceKey, _SendKey] = {}
        self._begun: dict[DeviceKey, _SendKey] = {}
        self._sealed: dict[DeviceKey, tuple[int, int]] = {}
        self._groups: dict[DeviceKey, GroupId] = {}
        """The group that the newest message to each device named."""
        self._batches: dict[DeviceKey, ImpliedBatch] = {}
        """What the longest batch lately said of its series: the next key implies it."""
        self._wasted: dict[DeviceKey, int] = {}
        """How many of each device's newest keys, one after the other, failed before they had made good their cost."""
        self._seen: set[DeviceKey] = set()
        self._wanted: set[DeviceKey] = set()

    def seal(self, recipient: DeviceKey, message: bytes, address: NoisePublic, now_us: int) -> bytes | None:
        """Return a link envelope; None where the message has to be sealed for the address."""
        key = self._used.get(recipient)
        if key is not None and (key.address != address or self._left(key, now_us) <= 0):
            self.end(recipient)
            key = None
        if key is None:
            self._count(recipient, now_us)
            return None
        if self._left(key, now_us) < 1 / _WORN:
            self._want(recipient)
        key.counter += 1
        return seal_by_link(message, key.link.key.reveal(), key.link.tag, key.counter)

    def shortened(self, recipient: DeviceKey, message: bytes, now_us: int) -> bytes:
        """Return a message as it goes under the key in use: short where the key implies some of its fields."""
        self._note(recipient, message)
        key = self._used.get(recipient)
        if key is None or key.implied is None:
            return message
        implied, noted = key.implied.batch, self._batches.get(recipient)
        is_young = now_us - key.begun_us < self._terms.age_us // _GROWS
        if noted is not None and (implied is None or (len(noted.names) > len(implied.names) and not is_young)):
            self._want(recipient)
        return shorten(message, key.implied) or message

    def _note(self, recipient: DeviceKey, message: bytes) -> None:
        """Note the group and the series that a message names: the next key implies them."""
        group_id = group_of(message)
        if group_id != NO_GROUP:
            self._groups[recipient] = group_id
        if type_of(message) is MessageType.TELEMETRY:
            self._note_batch(recipient, read_message(message, verify=False).body)

    def _note_batch(self, recipient: DeviceKey, body: bytes) -> None:
        batch, known = ImpliedBatch.of_message(body), self._batches.get(recipient)
        if batch is None or len(batch.names) > MAXIMUM_LINK_NAMES_BYTES:
            return
        is_old = known is not None and batch.monotonic_us > known.monotonic_us + self._terms.age_us
        if known is None or is_old or len(batch.names) >= len(known.names):
            self._batches[recipient] = batch

    def seal_note(
        self, recipient: DeviceKey, note: bytes, address: NoisePublic, now_us: int, *, answered: bool
    ) -> bytes | None:
        """Return a note's envelope; None where a signed and sealed message has to go instead (rule 3)."""
        key = self._used.get(recipient)
        if key is not None and not answered:
            key.unanswered += 1
            if key.unanswered % LINK_NOTES_UNANSWERED == 0:
                return None
        return self.seal(recipient, note, address, now_us)

    def _left(self, key: _SendKey, now_us: int) -> float:
        return 1 - max(key.counter / self._terms.envelopes, (now_us - key.begun_us) / self._terms.age_us)

    def _count(self, recipient: DeviceKey, now_us: int) -> None:
        sealed, since_us = self._sealed.get(recipient, (0, now_us))
        if now_us - since_us > self._terms.age_us:
            sealed, since_us = 0, now_us
        self._sealed[recipient] = sealed + 1, since_us
        if sealed + 1 >= self._terms.after << self._wasted.get(recipient, 0):
            self._want(recipient)

    def _want(self, recipient: DeviceKey) -> None:
        if recipient in self._seen and recipient not in self._begun:
            self._wanted.add(recipient)

    def note_seen(self, device: DeviceKey) -> None:
        """Note that a device is there."""
        self._seen.add(device)

    @property
    def wanted(self) -> bool:
        """Say whether a link should be begun."""
        return bool(self._wanted)

    def take_wanted(self) -> Iterator[DeviceKey]:
        """Yield, once, the devices that a link should be begun with."""
        while self._wanted:
            recipient = min(self._wanted)  # in an order that a replayed seed repeats
            self._wanted.remove(recipient)
            self._sealed.pop(recipient, None)
            yield recipient

    def draw(self, recipient: DeviceKey, incarnation: Incarnation) -> LinkKey:
        """Return a new key, which implies this device's present incarnation."""
        named = self._groups.get(recipient, NO_GROUP), incarnation
        drawn = self._rng(TAG_BYTES), Secret(self._rng(KEY_BYTES))
        return LinkKey(self._author, *drawn, named, self._batches.get(recipient))

    def begin(self, recipient: DeviceKey, link: LinkKey, address: NoisePublic, place: Place, now_us: int) -> None:
        """Note that a key's LINK is queued, durably."""
        self._begun[recipient] = _SendKey(link, address, now_us, place, link.implied(recipient))

    def is_link(self, recipient: DeviceKey, place: Place) -> bool:
        """Say whether a place holds a LINK whose key may come to be used; older ones' never are."""
        return recipient in self._begun and self._begun[recipient].place == place

    def acknowledged(self, recipient: DeviceKey, received: SequenceSet) -> None:
        """Use a key once its LINK is acknowledged (rule 2); the acknowledging device is online."""
        self.note_seen(recipient)
        key = self._begun.get(recipient)
        if key is not None and key.place in received:
            self.end(recipient)
            self._used[recipient] = self._begun.pop(recipient)

    def withdrawn(self, recipient: DeviceKey, first: int, last: int) -> None:
        """Forget a key whose LINK will never go."""
        key = self._begun.get(recipient)
        if key is not None and first <= key.place <= last:
            self._begun.pop(recipient).link.key.wipe()

    def tag(self, recipient: DeviceKey) -> bytes:
        """Return the tag of the key in use; empty where there is none."""
        key = self._used.get(recipient)
        return b"" if key is None else key.link.tag

    def fail(self, recipient: DeviceKey, tag: bytes) -> None:
        """Stop using a key that its recipient may lack, and begin the next one (rules 4 and 5)."""
        if tag and tag == self.tag(recipient):
            paid = self._used[recipient].counter >= self._terms.after
            self._wasted[recipient] = 0 if paid else min(self._wasted.get(recipient, 0) + 1, LINK_DOUBLINGS)
            self.end(recipient)
            if paid:
                self._want(recipient)

    def end(self, recipient: DeviceKey) -> None:
        """Stop using a key."""
        key = self._used.pop(recipient, None)
        if key is not None:
            key.link.key.wipe()

    def keep(self, is_peer: Callable[[DeviceKey], bool]) -> None:
        """Forget all about devices that are no peers any more."""
        for keys in (self._used, self._begun):
            for device in [each for each in keys if not is_peer(each)]:
                keys.pop(device).link.key.wipe()
        self._sealed = {device: count for device, count in self._sealed.items() if is_peer(device)}
        self._wasted = {device: keys for device, keys in self._wasted.items() if is_peer(device)}
        self._seen = {device for device in self._seen if is_peer(device)}
        self._groups = {device: group for device, group in self._groups.items() if is_peer(device)}
        self._batches = {device: batch for device, batch in self._batches.items() if is_peer(device)}
