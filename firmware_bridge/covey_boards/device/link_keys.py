"""The keys that a board gives its collector, so that most envelopes need no X25519. docs/protocol/core.md, section 4,
"Link keys".

1. A key is in RAM only, and each start draws another: no counter is ever used twice with one.
2. It is used once its LINK no longer waits, which only an acknowledgement achieves. Repetitions are sealed.
3. It ends at the first doubt, by age and by count; the next one is drawn before that.

The agent's are in core/link/link_keys.py; `device/__init__.py` says why they are not the same code.
"""

try:
    from covey_boards.shared import cbor, messages
    from covey_boards.shared import tweetnacl as nacl
except ImportError:
    import cbor
    import messages
    import tweetnacl as nacl
try:
    from micropython import const
except ImportError:
    const = int

_AFTER = const(8)  # sealed envelopes within a key's life, before one is drawn: a LINK costs as much as one
_ENVELOPES = const(65_536)  # LINK_KEY_ENVELOPES in agent/covey/limits/; but a board uses a key for an hour
_EIGHTH_US = const(450_000_000)


def seal_by_link(message, tag, key, counter):
    """Return a link envelope; no `counter` may be used twice with one tag (8) and key (32)."""
    nonce = tag + counter.to_bytes(16, "big")
    return cbor.encode([2, tag, counter, nacl.crypto_secretbox(messages.padded(message), nonce, key)])


class LinkKeys:
    """The key in use, and the one whose LINK is on its way: [tag, key, envelopes, time when it was drawn].

    Where no key is in use, tag and key are None, and envelopes are those that were sealed instead.
    """

    def __init__(self):
        self.wanted = False  # whether a key should be drawn, as soon as the collector has been heard
        self.entry = self._next = None  # the LINK that waits in the outbox, and its key
        self.end()

    def end(self):
        """Stop using the key."""
        self._used = [None, None, 0, 0]

    def seal(self, message, now_us):
        """Return a link envelope; None where the message has to be sealed."""
        used = self._used
        eighths = max(8 * used[2] // _ENVELOPES, (now_us - used[3]) // _EIGHTH_US)
        if eighths >= 8:
            used = self._used = [None, None, 0, now_us]
        used[2] += 1
        if self.entry is None and (eighths == 7 if used[0] else used[2] >= _AFTER):
            self.wanted = True
        return seal_by_link(message, *used[:3]) if used[0] else None

    def writing(self, board):
        """Return what draws a key, and writes the LINK that gives it to the collector, at a time."""

        def write(now_us):
            link = nacl.randombytes(8), nacl.randombytes(32)
            message = board._write(messages.LINK, messages.NO_GROUP, cbor.encode(link), now_us)
            self.begin(*link, board.outbox.add(message, False), now_us)

        return write

    def begin(self, tag, key, entry, now_us):
        """Note that a key's LINK is in the outbox."""
        self._next = [tag, key, 0, now_us]
        self.entry = entry
        self.wanted = False

    def heard(self, entries):
        """Take what still waits after an acknowledgement: the key is the collector's, too, if its LINK does not."""
        if self.entry is not None and self.entry not in entries:
            self._used, self._next, self.entry = self._next, None, None
