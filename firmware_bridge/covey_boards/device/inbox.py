"""The receiving half of the link from a board's collector. docs/protocol/, sections 8 and 19.

1. Only the next message counts; an earlier one is acknowledged again, anything else ignored.
2. Numbers that a LOSS or a RESUME reports as lost count as processed.
3. Process, then store, then acknowledge: after a power cut between the first two a message arrives again.
"""

try:
    from covey_boards.shared import cbor, messages
    from covey_boards.shared import tweetnacl as nacl

    from . import received
except ImportError:
    import cbor
    import messages
    import received
    import tweetnacl as nacl

FILE = "inbox.state"


def read_loss(body):
    """Return [[first, last], ...] of a loss record; nothing where it speaks of an earlier incarnation.

    Raises:
        WireError: malformed.
    """
    fields = cbor.decode(body, 2_560)
    earlier = (8,) if isinstance(fields, list) and len(fields) > 3 and isinstance(fields[3], bytes) else ()
    places = cbor.record(fields, (1, 255), list, list, *earlier)[1]
    return [] if earlier else [cbor.record(span, cbor.UINT, cbor.UINT) for span in places]


def read_resumption(body):
    """Return [(first, last), ...] of a resumption.

    Raises:
        WireError: malformed.
    """
    spans = cbor.decode(body, 2_048)
    if not isinstance(spans, list):
        raise cbor.WireError("malformed")
    return [cbor.record(span, cbor.UINT, cbor.UINT) for span in spans]


class Inbox:
    """What has been heard of the collector.

    Args:
        board: seals for the collector's new key from then on, and seals at all where messages come again; measures by new
            settings, and is told to `restart` where they ask for it.
        storage, settings: as `core.Core` has them.
        counters: of the board; `blobs` and `blobs_failed` join them.
    """

    def __init__(self, board, storage, settings, counters):
        self._board, self._storage, self._settings, self._counters = board, storage, settings, counters
        counters["blobs"] = counters["blobs_failed"] = 0
        self._incarnation, self._upto = self._stored()

    def _stored(self):
        raw = self._storage.read(FILE)
        if raw:
            try:
                return cbor.record(cbor.decode(raw, 64), (1, 1), 8, cbor.UINT)[1:]
            except cbor.WireError:
                pass  # then the collector's messages come once more
        return [bytes(8), 0]

    def take(self, kind, incarnation, link_seq, body, now_us):
        """Deal with a message of the collector's; return (kind, body) of an answer, or None.

        Raises:
            WireError: it is not what it should be, or nothing for a board.
        """
        if kind not in (messages.BLOB, messages.LOSS, messages.RESUME, messages.COLLECTOR_KEY):
            raise cbor.WireError("malformed")
        if incarnation != self._incarnation:
            self._incarnation, self._upto = incarnation, 0
        before = self._upto
        if 0 < link_seq <= before:
            board = self._board
            if board._reply is None and board._links is not None:  # unless an answer is due anyway, ours did not open there
                board._links.end()
        if kind in (messages.LOSS, messages.RESUME):
            for first, last in (read_loss if kind == messages.LOSS else read_resumption)(body):
                if first <= self._upto + 1 <= last:
                    self._upto = last
        if link_seq == self._upto + 1:
            if kind == messages.BLOB:
                self._deal_with(body, now_us)
            elif kind == messages.COLLECTOR_KEY:
                self._change_key(body)
            self._upto = link_seq
        if self._upto != before:
            self._storage.write(FILE, cbor.encode([1, self._incarnation, self._upto]))
        elif link_seq > self._upto:
            return None
        return messages.ACK, cbor.encode([self._incarnation, [self._upto, []]])

    def _deal_with(self, content, now_us):
        try:
            wanted = received.received(content, self._storage)
            if isinstance(wanted, dict):
                self._follow(wanted)
            elif wanted:
                self._board.restart(now_us)
            self._counters["blobs"] += 1
        except Exception:  # a blob that cannot be used must not come back for ever
            self._counters["blobs_failed"] += 1

    def _follow(self, settings):
        for name in ("interval", "batch", "report"):
            seconds = settings.get(name + "_seconds")
            if seconds is not None:
                setattr(self._settings, name + "_us", int(1_000_000 * seconds))
        self._board._sampling.sample_now()

    def _change_key(self, noise_public):
        """Believe a usable key; another would make the collector deaf to us, and is refused as often as it comes."""
        try:
            nacl.crypto_box_beforenm(noise_public, bytes(range(32)))
        except (nacl.CryptoError, ValueError):
            raise cbor.WireError("malformed")
        board = self._board
        board._links = None if board._links is None else type(board._links)()  # no key given under the old one is used
        board._collector = board._collector[:2] + [noise_public]
        self._storage.write(messages.COLLECTOR_FILE, cbor.encode([1] + board._collector))
