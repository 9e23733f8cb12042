"""Taking a firmware into the slot that is not in use. docs/protocol.md, section 18, "Firmware". Loaded when one comes.

1. It is taken only if as many of the operators that enrolment pinned have signed its header as an order needs, and it fits: the format of `.mpy` files,
   the processor, the heap, the room on flash. A board that has it, or on which it was no good, says so and takes nothing.
2. Its files lie in the other slot as they come, one after the other; how long they are says how far it has come, after
   whatever power cut. Nothing of them is loaded before all are there and each is what the header names.
3. Then the slot is on trial (`slots.py`), and the board restarts.
4. No file has a name with a folder in it, or one of those that the board keeps.
"""

import gc
import os
import sys

try:
    from covey_boards.shared import cbor, line_orders, messages
    from covey_boards.shared import tweetnacl as nacl

    from . import slots
except ImportError:
    import cbor
    import line_orders
    import messages
    import slots
    import tweetnacl as nacl
try:
    from micropython import const
except ImportError:
    const = int

RECEIVING, RUNS, TRIED, FAILED, REFUSED = 0, 1, 2, 3, 4
_PIECE = const(512)
_SIGNERS_MAX = const(4)
_SPARE_BYTES = const(8_192)  # of flash, for what the board itself writes
_DOMAIN = b"covey/1 board firmware\0"


class Unfit(Exception):
    """A firmware is not taken, and why, for people."""


def digest(pieces):
    """Return the hash of a file that comes in pieces of 512 bytes."""
    found = bytes(32)
    for piece in pieces:
        found = nacl.crypto_hash(found + piece)[:32]
    return found


class Update:
    """One firmware on its way.

    Args:
        storage: as `core.Core` has it.
        announced: encoding of [signature, signer, header], and of others' [[signature, signer], ...].
    """

    def __init__(self, storage, announced):
        self.installed = False
        fields = cbor.decode(announced, messages.MESSAGE_BYTES_MAX)
        kinds = (64, 32, bytes) if isinstance(fields, list) and len(fields) == 3 else (64, 32, bytes, list)
        signature, signer, header, *more = cbor.record(fields, *kinds)
        self._storage, self._root = storage, storage.folder
        self.id = nacl.crypto_hash(header)[:32]
        self.why = ""
        self._header = header  # and not what it says: that would be twice as long on the heap
        self.offset = self._length = 0
        good, trial, _, good_id, trial_id, failed_id = slots.read(storage)
        self._slot = slots.NAMES[2 if (trial or good) == slots.NAMES[1] else 1]
        self.state = RECEIVING
        if self.id in (good_id, trial_id, failed_id):
            self.state = RUNS if self.id == good_id else TRIED if self.id == trial_id else FAILED
            return
        try:
            if trial:
                raise Unfit("another one is on trial")
            self._check_signers([[signature, signer]] + (more[0] if more else []), header)
            self._examine(header)
        except Unfit as refused:
            self.state, self.why = REFUSED, str(refused)
            return
        self._look()

    def _check_signers(self, signed, header):
        """Rule 1: who has signed, twice or without being pinned, is not counted."""
        threshold, pinned = line_orders.read_pinned(self._storage)
        signers = set()
        for each in signed[:_SIGNERS_MAX]:
            signature, signer = cbor.record(each, 64, 32)
            if signer in pinned and signer not in signers:
                try:
                    nacl.crypto_sign_verify_detached(signature, _DOMAIN + header, signer)
                except nacl.CryptoError:
                    raise Unfit("its signature does not hold")
                signers.add(signer)
        if not signers:
            raise Unfit("it is signed by none of the operators that this board has pinned")
        if len(signers) < threshold:
            raise Unfit("%d of %d operators have signed it" % (len(signers), threshold))

    def _examine(self, header):
        """Rule 1, of what it says itself."""
        reader = cbor.Reader(header)
        head = reader.take(1), [reader.item(1) for _ in range(5)]
        if head[0] != b"\x86" or head[1][0] != 1:
            raise Unfit("it is of a later kind")
        architecture, mpy, heap_bytes = head[1][2:]
        for name, size, _ in self._files():
            if not size or "/" in name or name[:1] in (".", "") or not name.endswith((".py", ".mpy")):  # rule 4
                raise Unfit("it has a file that a firmware has not")
            self._length += size
        here, own_mpy = architecture_here()
        if architecture not in ("", here) and architecture not in _thumb_before(here):
            raise Unfit("it is for %s, and this board is %s" % (architecture, here or "unknown"))
        if mpy and mpy != own_mpy:
            raise Unfit("it is compiled for version %d of .mpy, and this board reads %d" % (mpy, own_mpy))
        gc.collect()
        if hasattr(gc, "mem_free") and gc.mem_free() + gc.mem_alloc() < heap_bytes * 15 // 16:
            raise Unfit("it needs %d bytes of heap" % heap_bytes)

    def _files(self):
        """Yield (name, size, digest) of each file."""
        reader = cbor.Reader(self._header)
        reader.take(1)
        for _ in range(5):
            reader.item(1)
        for _ in range(reader.number(reader.take(1)[0] & 31)):
            yield cbor.record(reader.item(1), str, cbor.UINT, 32)

    def _path(self, name):
        return self._root + self._slot + "/" + name

    def _size_of(self, name):
        try:
            return os.stat(self._path(name))[6]
        except OSError:
            return 0

    def _look(self):
        """Find out how far this firmware has come; what lies there of another one goes."""
        try:
            os.mkdir(self._root + self._slot)
        except OSError:
            pass
        mark = self._slot + ".id"
        if self._storage.read(mark) != self.id:
            for name in os.listdir(self._root + self._slot):
                os.remove(self._path(name))
            room = os.statvfs(self._root or ".") if hasattr(os, "statvfs") else None
            if room and room[0] * room[3] < self._length + _SPARE_BYTES:
                self.state, self.why = REFUSED, "the flash has %d bytes free" % (room[0] * room[3])
                return
            self._storage.write(mark, self.id)
        self.offset = 0
        for name, size, _ in self._files():
            there = self._size_of(name)
            self.offset += min(there, size)
            if there < size:
                break
        if self.offset == self._length:
            self._complete()

    def take(self, offset, piece):
        """Take a part of the contents; one that is not the next one changes nothing."""
        if self.state != RECEIVING or offset != self.offset:
            return
        for name, size, _ in self._files():
            there = self._size_of(name)
            if there < size and piece:
                with open(self._path(name), "ab") as file:
                    file.write(piece[: size - there])
                self.offset += len(piece[: size - there])
                piece = piece[size - there :]
        if self.offset == self._length:
            self._complete()

    def _complete(self):
        """Rules 2 and 3."""
        for name, _, hashed in self._files():
            if digest(self._pieces(name)) != hashed:
                os.remove(self._path(name))
                self._storage.write(self._slot + ".id", b"")
                self.state, self.why = REFUSED, "%s is not what was signed" % name
                return
        if hasattr(os, "sync"):
            os.sync()
        good, _, _, good_id, _, failed_id = slots.read(self._storage)
        slots.write(self._storage, [good, self._slot, 0, good_id, self.id, failed_id])
        self.state, self.installed = TRIED, True

    def _pieces(self, name):
        with open(self._path(name), "rb") as file:
            piece = file.read(_PIECE)
            while piece:
                yield piece
                piece = file.read(_PIECE)


def _thumb_before(here):
    """Return the processors whose native code MicroPython loads on a Cortex-M as well: those that can do less."""
    names = ("armv6m", "armv7m", "armv7em", "armv7emsp", "armv7emdp")
    return names[: names.index(here)] if here in names else ()


def architecture_here():
    """Return the processor that native code may be for, and the version of `.mpy` that this board reads."""
    return architecture_of(getattr(sys.implementation, "_mpy", 0))


def architecture_of(mpy):
    """Return what `sys.implementation._mpy` says: a processor as `mpy-cross -march=` calls it, and the version."""
    names = ",x86,x64,armv6,armv6m,armv7m,armv7em,armv7emsp,armv7emdp,xtensa,xtensawin,rv32imc".split(",")
    number = mpy >> 10 & 63
    return names[number] if number < len(names) else "", mpy & 255
