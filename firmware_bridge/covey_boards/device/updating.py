"""Accept a firmware into the unused slot. docs/protocol/boards.md, section 18, "Firmware". Loaded when one arrives.

1. It is accepted only if as many pinned operators have signed its header as an order needs, and if it fits: the format
   of `.mpy` files, the processor, the heap, the room on flash. A board that has it, or on which it failed, reports that
   and accepts nothing.
2. First comes the list of its files, which the header names by its digest, as the list names each file. It stays on
   flash and is read from there file by file, because small heaps cannot hold it.
3. Files are stored in the other slot one after the other; their length shows how far it has come, even after a power
   cut. None is loaded before all are there and match the list.
4. Flashed files stay in place, and are not sent again: modules that the slot lacks are loaded from there.
5. Then the slot is on trial (`slot_state.py`), and the board restarts.
6. No file name contains a folder, or is one of the board's own files.
"""

import gc
import os
import sys

try:
    from covey_boards.shared import cbor, line_orders, messages
    from covey_boards.shared import tweetnacl as nacl

    from . import slot_state
except ImportError:
    import cbor
    import line_orders
    import messages
    import slot_state
    import tweetnacl as nacl
try:
    from micropython import const
except ImportError:
    const = int

RECEIVING, RUNS, TRIED, FAILED, REFUSED = 0, 1, 2, 3, 4
_PIECE = const(512)
_SIGNERS_MAX = const(4)
_SPARE_BYTES = const(8_192)  # of flash, for what the board itself writes
_LIST = "list"  # of the files; no file of a firmware is called so
_LIST_BYTES_MAX = const(8_192)  # 64 files
_ENTRY_BYTES_MAX = const(128)  # of the list: a name of 64 bytes
_ROM = "/rom/"
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
    """Messages that a board has signed and its collector has not acknowledged: in RAM, bounded. No port, no clock, no
    keys.

    1. Only the collector's acknowledgement frees a message (docs/protocol/core.md, section 8). A message is signed
       once, and sealed again for each transmission.
    2. New messages are sent in order and at once: the gateway has a disk, and waits for an absent relay. A message that
       the gateway accepted and lost is sent again, one for each retry time (section 18).
    3. Beyond `bytes_max` the oldest is dropped. If the gateway never had it, it is lost, and a LOSS record reports it
       as soon as possible. If the gateway accepted it, it is lost once acknowledgements still leave it out
       `_MISSING_US` later.
    4. A board's heap may end anywhere: allocations come before changes of state.
    5. A restart forgets all of this, and begins a new incarnation: no sequence is ever used twice. Messages that no
       gateway has are noted on flash before (`losses.py`).

    The agent keeps the same promises in core/link/send_window.py; `device/__init__.py` says why in other code.
    """

    def __init__(self, storage, announced):
        self.installed = False
        fields = cbor.decode(announced, messages.MESSAGE_BYTES_MAX)
        kinds = (64, 32, bytes) if isinstance(fields, list) and len(fields) == 3 else (64, 32, bytes, list)
        signature, signer, header, *more = cbor.record(fields, *kinds)
        self._storage, self._root = storage, storage.folder
        self.id = nacl.crypto_hash(header)[:32]
        self.why = ""
        self.offset = self._begins = 0  # what is to come next, and where the file that it belongs to begins
        self._place = 0  # in the list, of what comes behind that file
        good, trial, _, good_id, trial_id, failed_id = slot_state.read(storage)
        self._slot = slot_state.NAMES[2 if (trial or good) == slot_state.NAMES[1] else 1]
        self.state = RECEIVING
        if self.id in (good_id, trial_id, failed_id):
            self.state = RUNS if self.id == good_id else TRIED if self.id == trial_id else FAILED
            return
        try:
            if trial:
                raise Unfit("another one is on trial")
            self._check_signers([[signature, signer]] + (more[0] if more else []), header)
            self._file = self._examine(header)  # (name, size, digest) of what comes: the list first
            self._prepare()
            self._go_on()
        except Unfit as refused:
            self._refuse(refused)

    def _check_signers(self, signed, header):
        """Rule 1: repeated and unpinned signers do not count."""
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
        """Rule 1, of what it says itself; return what it says of the list."""
        fields = cbor.decode(header, messages.MESSAGE_BYTES_MAX)
        if not isinstance(fields, list) or fields[:1] != [1]:
            raise Unfit("it is of another kind than this board takes")
        _, _, architecture, mpy, heap_bytes, size, digest = cbor.record(
            fields, (1, 1), str, str, (0, 255), cbor.UINT, (1, _LIST_BYTES_MAX), 32
        )
        here, own_mpy = architecture_here()
        if architecture not in ("", here) and architecture not in _thumb_before(here):
            raise Unfit("it is for %s, and this board is %s" % (architecture, here or "unknown"))
        if mpy and mpy != own_mpy:
            raise Unfit("it is compiled for version %d of .mpy, and this board reads %d" % (mpy, own_mpy))
        gc.collect()
        if hasattr(gc, "mem_free") and gc.mem_free() + gc.mem_alloc() < heap_bytes * 15 // 16:
            raise Unfit("it needs %d bytes of heap" % heap_bytes)
        return _LIST, size, digest

    def _prepare(self):
        """Have the slot hold nothing of another firmware."""
        try:
            os.mkdir(self._root + self._slot)
        except OSError:
            pass
        if self._storage.read(self._slot + ".id") != self.id:
            self._clear()
            self._storage.write(self._slot + ".id", self.id)

    def _clear(self):
        for name in os.listdir(self._root + self._slot):
            os.remove(self._path(name))

    def _path(self, name):
        return self._root + self._slot + "/" + name

    def _refuse(self, unfit):
        self.state, self.why = REFUSED, str(unfit)

    def take(self, offset, piece):
        """Take a part of the list and of what it names; one that is not the next one changes nothing."""
        if self.state != RECEIVING or offset != self.offset:
            return
        piece = memoryview(piece)  # a heap has it once, where the line put it, and seldom a second time
        try:
            while self.offset < offset + len(piece) and self.state == RECEIVING:
                name, size, _ = self._file
                begins = self.offset - offset  # of this file's, in the piece
                rest = piece[begins : begins + size - (self.offset - self._begins)]
                with open(self._path(name), "ab") as file:
                    file.write(rest)
                self.offset += len(rest)
                if self.offset == self._begins + size:
                    self._go_on()
        except Unfit as refused:
            self._refuse(refused)

    def _go_on(self):
        """Find out what is to come next, from the file that came last on (rules 3 and 4), or that all is there (rule 5)."""
        while self._file is not None:
            name, size, hashed = self._file
            there = _size_of(self._path(name))
            if there < size and (there or not self._is_flashed(name, hashed)):
                self.offset = self._begins + there
                return
            if there and digest(_pieces(self._path(name))) != hashed:
                os.remove(self._path(name))
                self._storage.write(self._slot + ".id", b"")
                raise Unfit("%s is not what was signed" % (name if name != _LIST else "its list of files"))
            if name == _LIST:
                self._check_room()
            self._begins += size
            self._file = self._next()
        self.offset = self._begins
        if hasattr(os, "sync"):
            os.sync()
        good, _, _, good_id, _, failed_id = slot_state.read(self._storage)
        slot_state.write(self._storage, [good, self._slot, 0, good_id, self.id, failed_id])
        self.state, self.installed = TRIED, True

    def _next(self):
        """Return (name, size, digest) of the next file of the list, or None behind the last one."""
        with open(self._path(_LIST), "rb") as file:
            file.seek(self._place)
            reader = cbor.Reader(file.read(_ENTRY_BYTES_MAX))
        if not reader.raw:
            return None
        try:
            name, size, hashed = cbor.record(reader.item(1), str, cbor.UINT, 32)
        except cbor.WireError:
            raise Unfit("its list of files is none")
        if not size or "/" in name or name[:1] in (".", "") or not name.endswith((".py", ".mpy")):  # rule 6
            raise Unfit("it has a file that a firmware has not")
        self._place += reader.place
        return name, size, hashed

    def _check_room(self):
        """Rule 1, of the room on flash; what has been flashed in the same length counts as the same."""
        needed, entry = _SPARE_BYTES, self._next()
        while entry is not None:
            name, size, _ = entry
            if size not in [_size_of(folder + name) for folder in (self._root, _ROM)]:
                needed += size - min(size, _size_of(self._path(name)))
            entry = self._next()
        self._place = 0
        room = os.statvfs(self._root or ".") if hasattr(os, "statvfs") else None
        if room and room[0] * room[3] < needed:
            self._clear()
            raise Unfit("the flash has %d bytes free" % (room[0] * room[3]))

    def _is_flashed(self, name, hashed):
        """Rule 4: say whether modules that a slot lacks come from a file like this one."""
        stem = name[: name.rindex(".")] if name != _LIST else name
        for folder in (self._root, _ROM):
            there = [each for each in (stem + ".py", stem + ".mpy") if _size_of(folder + each)]
            if there:
                return there == [name] and digest(_pieces(folder + name)) == hashed
        return False


def _size_of(path):
    try:
        return os.stat(path)[6]
    except OSError:
        return 0


def _pieces(path):
    with open(path, "rb") as file:
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
