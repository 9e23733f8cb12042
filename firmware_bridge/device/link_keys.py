"""The keys that a board gives its collector, so that most envelopes need no X25519. docs/protocol.md, section 4, "Link keys".

1. A key lies in RAM only, and a start draws another: no counter is ever used twice with one.
2. It is used when its LINK no longer waits: an acknowledgement alone frees that. What is sent again is sealed.
3. It ends with the first doubt, with its age and with its count; the next one is drawn before that.
"""

try:
    from firmware_bridge.shared import messages
except ImportError:
    import messages
try:
    from micropython import const
except ImportError:
    const = int

_AFTER = const(8)  # sealed envelopes within a key's life, before one is drawn: a LINK costs as much as one
_ENVELOPES = const(65_536)  # LINK_KEY_ENVELOPES and LINK_KEY_US in agent/core/limits.py
_LIFE_SECONDS = const(3_600)
_WORN = const(7)  # eighths of its life


class LinkKeys:
    """The key in use, and the one whose LINK is on its way: [tag, key, counter, time when it was drawn]."""

    def __init__(self):
        self.entry = None  # the LINK that waits in the outbox
        self._used = self._next = None
        self._heard = False
        self._sealed = self._since_us = 0
        self._wanted = False

    @property
    def wanted(self):
        """Whether a key should be drawn: only for a collector that is there, and one at a time."""
        return self._wanted and self._heard and self.entry is None

    def seal(self, message, now_us):
        """Return a link envelope; None where the message has to be sealed."""
        key = self._used
        if key is not None:
            eighths = max(8 * key[2] // _ENVELOPES, 8 * (now_us - key[3]) // 1_000_000 // _LIFE_SECONDS)
            if eighths < 8:
                self._wanted = self._wanted or eighths >= _WORN
                key[2] += 1
                return messages.seal_by_link(message, *key[:3])
            self._used = None
        if now_us - self._since_us > 1_000_000 * _LIFE_SECONDS:
            self._sealed, self._since_us = 0, now_us
        self._sealed += 1
        self._wanted = self._wanted or self._sealed >= _AFTER
        return None

    def begin(self, tag, key, entry, now_us):
        """Note that a key's LINK is in the outbox."""
        self._next = [tag, key, 0, now_us]
        self.entry = entry
        self._wanted, self._sealed = False, 0

    def heard(self, entries):
        """Note an acknowledgement, and what still waits after it."""
        self._heard = True
        if self.entry is not None and self.entry not in entries:
            self._used, self._next, self.entry = self._next, None, None

    def end(self):
        """Use the key no more."""
        self._used = None
