"""Serve the line of a board whose firmware cannot continue: it reports why, and restarts the board.

Loaded when needed, in place of `core`, with the part of its interface that `ports.run` uses.
"""

try:
    from covey_boards.shared import cbor, link_machine, messages
except ImportError:
    import cbor
    import link_machine
    import messages
try:
    from micropython import const
except ImportError:
    const = int

_REST_SECONDS = const(30)  # between two starts that fail: neither flash nor a gateway's log wears out


def _boot_id():
    try:
        from os import urandom

        return urandom(8)
    except ImportError:  # which may be what is wrong
        import time

        return time.ticks_us().to_bytes(8, "little")


class Failing:
    """A board that reports an error to its gateway.

    Args:
        trouble: a line for people.
        now_us: microseconds since boot.
        rest_seconds: before it restarts; None: as usual.
    """

    def __init__(self, trouble, now_us, rest_seconds=None):
        self.restart_wanted = False
        self.sleeping = None
        self._trouble = trouble
        self.link = link_machine.Link(_boot_id())
        self._until_us = now_us + int(1_000_000 * (rest_seconds or _REST_SECONDS))

    def feed(self, raw, now_us):
        """Take bytes from the line."""
        self.link.receive_bytes(raw, now_us // 1000)

    def tick(self, now_us):
        """Do what is due, and return the bytes for the line."""
        now = now_us // 1000
        deadline = self.link.next_deadline()
        if deadline is not None and now >= deadline:
            self.link.handle_deadline(now)
        event = self.link.next_event()
        while event is not None:
            if isinstance(event, link_machine.LinkUp):
                self.link.send(messages.to_line(messages.TROUBLE, self._trouble))
            elif isinstance(event, link_machine.Message):
                self._receive(event)
            event = self.link.next_event()
        self.restart_wanted = self.restart_wanted or now_us >= self._until_us
        return self.link.bytes_to_send(now)

    def _receive(self, message):
        try:
            self.restart_wanted = messages.from_line(message.data)[0] == messages.RESTART
        except cbor.WireError:
            pass
        self.link.acknowledge(message.token)

    def out_of_memory(self):
        """Restart: there is no smaller mode."""
        self.restart_wanted = True

    def failed(self, reason):
        """Restart."""
        self.restart_wanted = True


def start(trouble, now_us, rest_seconds=None):
    """Return what serves the line in the place of a board."""
    return Failing(trouble, now_us, rest_seconds)
