"""Forgeries of receipts, drawn from a seed: what somebody makes who has genuine receipts, and no key of the device.

A forger may have receipts of several batches and devices, and keys of its own. It flips bits, cuts and joins receipts,
changes fields and encodes them again, rebuilds trees, and signs with keys that are not the device's.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

from covey.core import crypto
from covey.core.crypto import Identity
from covey.core.ids import DeviceKey
from covey.core.telemetry.batch import BatchBuilder, ClockKind, ClockReading, Value
from covey.core.telemetry.decoding import read_batch
from covey.core.vault import receipts
from covey.core.vault.receipts import sign_rows, verify_receipt, write_receipt
from covey.core.wire import cbor
from covey.errors import RemoteError
from tests.outside.receipt import InvalidError, verify

_GROUP_ORDER = 2**252 + 27742317777372353535851937790883648493
_SIGNATURE, _STATEMENT, _INDEX, _SALT, _ROW, _PATH = range(1, 7)
_ATTEMPTS = 50

Said = tuple[str, str, int, Value, int, int]
"""What a receipt proves: name, unit, time, value, place in the batch, readings of the batch."""


class Tally(NamedTuple):
    """How many forgeries were tried, were the genuine receipt in other bytes, and proved what nobody has signed."""

    tried: int
    harmless: int
    accepted: list[bytes]


class Forger:
    """Somebody with receipts of two devices, who wants one that says something else."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self.victim, self._other, self._own = (self._identity() for _ in range(3))
        self._genuine: list[tuple[bytes, list[Any]]] = []
        self._signed: set[Said] = set()
        for owner in (self.victim, self._other):
            for size in (1, 2, 3, 5, 8, 60):
                self._measure(owner, size)

    @property
    def key(self) -> DeviceKey:
        """The key of the device that a forgery has to be of."""
        return self.victim.signing_public

    @cached_property
    def _methods(self) -> list[Callable[[], bytes]]:
        return [
            self._flipped,
            self._cut,
            self._spliced,
            self._field_of_another,
            self._field_of_another,
            self._row_changed,
            self._row_changed,
            self._path_changed,
            self._path_changed,
            self._tree_of_its_own,
            self._signed_by_others,
            self._signature_changed,
            self._statement_changed,
            self._inner_node_as_leaf,
        ]

    def run(self, count: int) -> Tally:
        """Try so many forgeries on the product and on the verifier that was written from the document alone."""
        harmless, accepted = 0, []
        genuine = {raw for raw, _ in self._genuine}
        for _ in range(count):
            raw = self._forge(genuine)
            said = {each for each in (self._mine(raw), self._theirs(raw)) if each is not None}
            if said - self._signed:
                accepted.append(raw)
            harmless += bool(said & self._signed)
        return Tally(count, harmless, accepted)

    def _forge(self, genuine: set[bytes]) -> bytes:
        for _ in range(_ATTEMPTS):
            raw = self._rng.choice(self._methods)()
            if raw not in genuine:
                return raw
        raise AssertionError("a forger that changes nothing")

    def _mine(self, raw: bytes) -> Said | None:
        try:
            found = verify_receipt(raw, self.key)
        except RemoteError:
            return None
        return found.name, found.unit, found.time_us, found.value, found.index, found.readings

    def _theirs(self, raw: bytes) -> Said | None:
        try:
            found = verify(raw, self.key)
        except InvalidError:
            return None
        return found.name, found.unit, found.time, found.value, found.place, found.readings

    def _identity(self) -> Identity:
        return Identity.from_seeds(self._rng.randbytes(32), self._rng.randbytes(32))

    def _measure(self, owner: Identity, size: int) -> None:
        builder = BatchBuilder()
        for place in range(size):
            name = f"sensor-{place % 3}"
            values: list[Value] = [place / 4, place % 2 == 0, f"t{place}"]
            builder.add(name, "Cel", 1_000_000 * place, self._rng.choice(values))
        clock = ClockReading(self._rng.randbytes(8), 90_000_000, 1_800_000_000_000_000, ClockKind.SYNCHRONISED)
        batch = builder.body(clock)
        read, rows = read_batch(batch), sign_rows(owner, batch, self._rng.randbytes(16))
        for index, reading in enumerate(read.readings()):
            raw = write_receipt(owner.signing_public, read, rows, index)
            self._genuine.append((raw, cbor.decode(raw, len(raw))))
            if owner is self.victim:
                self._signed.add((*reading, index, size))

    def _any(self) -> tuple[bytes, list[Any]]:
        raw, fields = self._rng.choice(self._genuine)
        return raw, [*fields]

    def _flipped(self) -> bytes:
        raw = bytearray(self._any()[0])
        for _ in range(self._rng.choice((1, 1, 1, 2, 3, 8))):
            raw[self._rng.randrange(len(raw))] ^= 1 << self._rng.randrange(8)
        return bytes(raw)

    def _cut(self) -> bytes:
        raw, begin = self._any()[0], self._rng.randrange(1, 40)
        return self._rng.choice((raw[:-begin], raw[begin:], raw + self._rng.randbytes(begin)))

    def _spliced(self) -> bytes:
        (one, _), (other, _) = self._any(), self._any()
        at = self._rng.randrange(min(len(one), len(other)))
        return one[:at] + other[at:]

    def _field_of_another(self) -> bytes:
        (_, fields), (_, other) = self._any(), self._any()
        for place in self._rng.sample(range(_SIGNATURE, _PATH + 1), self._rng.randrange(1, 4)):
            fields[place] = other[place]
        return cbor.encode(fields)

    def _row_changed(self) -> bytes:
        _, fields = self._any()
        row = cbor.decode(fields[_ROW], len(fields[_ROW]))
        place = self._rng.randrange(len(row))
        if isinstance(row[place], bool):
            row[place] = not row[place]
        elif isinstance(row[place], int):
            row[place] += self._rng.choice((-1, 1, 1_000_000))
        else:
            row[place] = row[place][1:] if self._rng.random() < 0.5 else row[place] * 2
        fields[_ROW] = cbor.encode(row)
        if self._rng.random() < 0.3:
            fields[_SALT] = self._rng.randbytes(16)
        return cbor.encode(fields)

    def _path_changed(self) -> bytes:
        _, fields = self._any()
        path, rng = fields[_PATH], self._rng
        known = [node for _, each in self._genuine for node in each[_PATH]]
        match rng.randrange(5):
            case 0:
                path = [*path, rng.choice(known)]
            case 1:
                path = path[1:]
            case 2:
                path = rng.sample(path, len(path))
            case 3:
                path = [rng.choice(known) for _ in path]
            case _:
                fields[_INDEX] = rng.choice((0, 1, fields[_INDEX] ^ 1, fields[_INDEX] + 1, 59, 15_999))
        fields[_PATH] = path
        return cbor.encode(fields)

    def _tree_of_its_own(self) -> bytes:
        """A tree with another reading in it: its root is not the one that was signed."""
        _, fields = self._any()
        row = cbor.encode(["sensor-0", "Cel", 0, 0, self._rng.randrange(10**9), self._rng.randrange(-(10**6), 10**6)])
        leaves = [receipts._leaf(fields[_SALT], row), *fields[_PATH]]
        levels = receipts._levels(leaves)
        fields[_ROW], fields[_INDEX] = row, 0
        fields[_PATH] = [level[1] for level in levels if len(level) > 1]
        if self._rng.random() < 0.5:
            statement = cbor.decode(fields[_STATEMENT], 2048)
            statement[-2:] = [len(leaves), levels[-1][0]]
            fields[_STATEMENT] = cbor.encode(statement)
        return cbor.encode(fields)

    def _signed_by_others(self) -> bytes:
        _, fields = self._any()
        statement = cbor.decode(fields[_STATEMENT], 2048)
        if self._rng.random() < 0.5:
            statement[1] = self.key
        fields[_STATEMENT] = cbor.encode(statement)
        signer = self._rng.choice((self._other, self._own))
        domain = self._rng.choice((b"covey/1 rows", b"covey/1 message"))
        fields[_SIGNATURE] = crypto.sign(domain, fields[_STATEMENT], signer)
        return cbor.encode(fields)

    def _signature_changed(self) -> bytes:
        """Malleable forms, and points of small order."""
        _, fields = self._any()
        nonce, scalar = fields[_SIGNATURE][:32], int.from_bytes(fields[_SIGNATURE][32:], "little")
        match self._rng.randrange(3):
            case 0:
                scalar = scalar + _GROUP_ORDER
            case 1:
                scalar = _GROUP_ORDER - scalar
            case _:
                nonce, scalar = self._rng.choice((bytes(32), b"\1" + bytes(31))), self._rng.choice((0, scalar))
        fields[_SIGNATURE] = nonce + scalar.to_bytes(32, "little")
        return cbor.encode(fields)

    def _statement_changed(self) -> bytes:
        _, fields = self._any()
        statement = cbor.decode(fields[_STATEMENT], 2048)
        place = self._rng.randrange(len(statement))
        if isinstance(statement[place], int):
            statement[place] = self._rng.choice((statement[place] + 1, max(0, statement[place] - 1), 0, 1))
        else:
            statement[place] = self._rng.randbytes(len(statement[place]))
        fields[_STATEMENT] = cbor.encode(statement)
        return cbor.encode(fields)

    def _inner_node_as_leaf(self) -> bytes:
        """The content of an inner node, 64 bytes, read as salt and reading, with a shorter path."""
        _, fields = self._any()
        node, path = receipts._leaf(fields[_SALT], fields[_ROW]), fields[_PATH]
        if path:
            content = path[0] + node if fields[_INDEX] & 1 else node + path[0]
            fields[_SALT], fields[_ROW] = content[:16], content[16:]
            fields[_INDEX], fields[_PATH] = fields[_INDEX] >> 1, path[1:]
        return cbor.encode([*fields, {self._rng.randrange(1, 9): 0}] if self._rng.random() < 0.2 else fields)
