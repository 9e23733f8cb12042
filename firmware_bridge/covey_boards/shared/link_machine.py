"""The serial link between a board and its gateway: a state machine without port, clock or randomness.

Both ends run the same code. `now` is a count of milliseconds that never goes back.

1. Each end draws a boot id when its state is new. A HELLO carries versions, limits, its own boot id and, if known, the
   peer's. The link is up once the peer is known to know us.
2. A new boot id of the peer ends the session: sequences start again, and unacknowledged messages are sent again from
   their first byte. So a message arrives at least once across a reset, and exactly once within a session.
3. DATA and ACK carry a tag of both boot ids. Frames of another session are answered with a HELLO and change nothing.
4. As many DATA may precede their ACK as the peer's HELLO allows; one without a statement. A receiver accepts them only
   in order, so it stores nothing beyond a gap: it names the missing one by RESEND, once for each time that it was
   skipped, and from there on all are sent again. A repeated DATA is acknowledged again, not delivered again.
5. The last fragment of a message is acknowledged when the owner calls `acknowledge`: commit, then release. Later frames
   are acknowledged after it, by one ACK for all up to its sequence. Until then a repetition is answered with BUSY. The
   token in `Message` keeps a late owner from acknowledging a message of the next session.
6. BUSY postpones the peer's repetitions, by ten seconds at most, without counting as silence: a peer that is busy again
   and again may never have received the frame.
7. The repetition timer follows the measured round trip (RFC 6298, with Karn's rule) between 50 ms and 2 s, doubles with
   every repetition, and belongs to the oldest DATA: later ones are repeated if that is answered by an ACK, not if by
   BUSY. After eight in vain the link is down, and HELLOs look for the peer.
8. Received data cannot raise, and nothing grows beyond the bounds below.
9. A board's heap may end anywhere: allocations come before changes of state, so that a repetition finds the link as it
   was. Only `MemoryError` leaves this module.
"""

from collections import namedtuple

try:
    from .framing import Decoder, body_size_max, crc32, encode
except ImportError:
    from framing import Decoder, body_size_max, crc32, encode
try:
    from micropython import const
except ImportError:
    const = int

_VERSION_MIN = const(1)
_VERSION_MAX = const(1)

_RTO_MS_MIN = const(50)  # below the latency of USB-serial adapters and a busy scheduler, repetitions would be the rule
_RTO_MS_MAX = const(2_000)  # a board is back from a reset within that
_HELLO_MS_MIN = const(200)
_HELLO_MS_MAX = const(2_000)
_REPETITIONS_MAX = const(8)  # some ten seconds of silence
_BUSY_MS_MAX = const(10_000)  # a hostile or confused peer must not stop us for longer
_MTU_MIN = const(48)  # bursts that a micro:bit's receive ring takes whole
MTU_MAX = 4_096
MESSAGE_BYTES_MAX = 4_096  # covey/limits/board.py: the longest message of a board
_QUEUE_BYTES_MAX = const(8_192)
_FRAGMENTS_MAX = const(128)  # of a message: the longest in frames of 48 bytes has 111
_WINDOW_MAX = const(8)  # DATA ahead of their ACK, whatever a peer says: a tenth of a second at 115,200 baud with 200 bytes each

_HELLO = const(1)
_DATA = const(2)
_DATA_LAST = const(3)
_ACK = const(4)
_BUSY = const(5)
_RESEND = const(6)
_HEADER_BYTES = const(4)  # kind, sequence, session tag
_HELLO_BYTES = const(24)
_NOBODY = bytes(8)

# State: nobody known; known, but not known to know us; up; no version in common.
SEARCHING = const(0)
GREETING = const(1)
UP = const(2)
INCOMPATIBLE = const(3)

# Event: a HELLO of a peer that is new or has restarted; a HELLO that names us; a frame under the session's tag;
# repetitions in vain; a HELLO without a version in common.
_MET = const(0)
_NAMED = const(1)
_TAGGED = const(2)
_SILENCE = const(3)
_FOREIGN = const(4)
_EVENTS = const(5)
_NONE = const(4)  # does not happen here, or is a stray

# The next state: a row for each state, a column for each event, and no object but this one on the heap.
# docs/internals/state-machines.md draws it.
TRANSITIONS = (  # _MET, _NAMED, _TAGGED, _SILENCE, _FOREIGN
    b"\1\4\4\4\3"  # SEARCHING
    b"\1\2\2\4\3"  # GREETING
    b"\1\2\2\1\3"  # UP
    b"\1\2\4\4\3"  # INCOMPATIBLE
)

LinkUp = namedtuple("LinkUp", ("boot_id", "version", "mtu", "restarted"))
LinkDown = namedtuple("LinkDown", ("reason",))
Message = namedtuple("Message", ("data", "token"))
Delivered = namedtuple("Delivered", ("number",))


class Statistics:
    """Counters since the start; what the decoder counts is in `Link.decoder`."""

    frames_sent = repetitions = duplicates = strays = 0
    busy_received = sessions = downs = messages_sent = messages_received = 0


class _Timer:
    """The repetition timer of RFC 6298 in whole milliseconds."""

    rto = 500
    _smoothed = None
    _variation = 0

    def measure(self, value):
        """Take a round trip of something that was sent once."""
        if self._smoothed is None:
            self._smoothed, self._variation = value, value // 2
        else:
            self._variation = (3 * self._variation + abs(self._smoothed - value)) // 4
            self._smoothed = (7 * self._smoothed + value) // 8
        self.rto = min(max(self._smoothed + 4 * self._variation, _RTO_MS_MIN), _RTO_MS_MAX)


class Link:
    """One end of the line.

    Args:
        boot_id: 8 random bytes, new with every start.
        mtu: bytes that our receive buffer takes in one burst.
        message_bytes_max: the longest message that we accept.
        window: frames of `mtu` that our receive buffer takes while we are not looking, 1 to 8.
        frame_bytes_max: the longest frame that we send, even to a peer that takes longer ones: a heap holds it thrice.
    """

    def __init__(self, boot_id, mtu=256, message_bytes_max=MESSAGE_BYTES_MAX, window=1, frame_bytes_max=MTU_MAX):
        self.boot_id = bytes(boot_id)
        self.mtu = min(max(mtu, _MTU_MIN), MTU_MAX)
        self.message_bytes_max = min(message_bytes_max, MESSAGE_BYTES_MAX)
        self.window = window
        self.frame_bytes_max = frame_bytes_max
        self.state = SEARCHING
        self.statistics = Statistics()
        self.decoder = Decoder(self.mtu)
        self._events = []
        self._frames = []
        self._queue = []
        self._next_number = 0
        self._fresh = True  # the peer has not been up in this session
        self._peer_mtu = _MTU_MIN
        self._peer_window = 1
        self._peer_message_bytes_max = MESSAGE_BYTES_MAX
        self._version = 0
        self._hello_at = 0
        self._hello_ms = _HELLO_MS_MIN
        self._answered_at = None
        self._timer = _Timer()
        self._new_session(_NOBODY)

    # What the owner calls

    def send(self, message):
        """Queue a message; return its number, which `Delivered` will name, or None while the queue is full.

        Raises:
            ValueError: the message is longer than the peer takes.
        """
        if len(message) > self._peer_message_bytes_max:
            raise ValueError("message too long")
        if self._queue and self.queued_bytes() + len(message) > _QUEUE_BYTES_MAX:
            return None
        number = self._next_number
        self._next_number += 1
        self._queue.append((number, bytes(message)))
        return number

    def queued_bytes(self):
        """Return the bytes of messages that are not delivered yet."""
        return sum([len(data) for _, data in self._queue])

    def acknowledge(self, token):
        """Release the peer from the message that came with `token`: it is stored or done. In the order of their coming."""
        if self._held and token[0] == self.statistics.sessions and token[1] == self._held[0]:
            self._held.pop(0)
            self._emit(_ACK, self._released(), b"")

    def busy(self, duration_ms):
        """Tell the peer that answers will take so long: before a long computation."""
        if self.state == UP:
            self._emit(_BUSY, 0, min(duration_ms, _BUSY_MS_MAX).to_bytes(2, "little"))

    def receive_bytes(self, raw, now):
        """Take bytes from the line; b"" after unplugging changes nothing."""
        for body in self.decoder.receive_bytes(raw):
            if len(body) >= _HEADER_BYTES:
                self._receive_body(body, now)
            else:
                self.statistics.strays += 1

    def next_event(self):
        """Return the next event, or None."""
        return self._events.pop(0) if self._events else None

    def bytes_to_send(self, now):
        """Return what is to be written to the line now, one DATA at most; b"" when that is all for now."""
        if self.state == UP:
            self._send_data(now)
        frames, self._frames = self._frames, []
        self.statistics.frames_sent += len(frames)
        return frames[0] if len(frames) == 1 else b"".join(frames)

    def next_deadline(self):
        """Return when `handle_deadline` is due, or None."""
        if self.state != UP:
            return self._hello_at
        return self._repeat_at

    def handle_deadline(self, now):
        """Do what time asks for."""
        if self.state != UP:
            if now >= self._hello_at:
                self._say_hello()
                self._hello_at = now + self._hello_ms
                self._hello_ms = min(2 * self._hello_ms, _HELLO_MS_MAX)
        elif self._outstanding and self._repeat_at is not None and now >= self._repeat_at:
            self._repetitions += 1
            if self._repetitions > _REPETITIONS_MAX:
                self._follow(_SILENCE, now, "silence")
                self._repeat_at = None
                return
            self._suspect = True
            self._sent = max(1, self._sent)
            self._timer.rto = min(2 * self._timer.rto, _RTO_MS_MAX)
            self._wait(now)
            self._transmit(0, True)

    # Sessions

    def _new_session(self, peer):
        """Forget sequences and halves; keep the queue. Who the peer is comes last: a half is made whole by its next HELLO."""
        both = min(self.boot_id, peer) + max(self.boot_id, peer)
        self._tag = (crc32(both) & 0xFFFF).to_bytes(2, "little")
        self._fragments = []  # of the message that comes: no piece of the heap has to hold it all before it is whole
        self._send_sequence = self._receive_sequence = 0
        self._held = []  # sequences of the DATA_LAST that our owner has not acknowledged
        self._passed = 127  # how far beyond the sequence that we lack the peer was last
        self._place = self._offset = 0  # of the fragment that was not sent yet: in the queue, and in its message
        self._outstanding = []  # sent and not acknowledged: (kind, message, start, end)
        self._sent = 0  # of these, all but those that are to go again
        self._suspect = False  # the oldest has been repeated, and what followed it may be lost as well
        self._sent_at = None  # when the one was sent whose ACK is timed, None if that was repeated
        self._timed = 0  # its place among those outstanding
        self._repeat_at = None
        self._patient_until = 0  # BUSY postpones the repetition no further
        self._repetitions = 0
        self._peer = peer

    def _say_hello(self):
        wants_answer = 0 if self.state == UP else 1
        numbers = self.mtu.to_bytes(2, "little") + self.message_bytes_max.to_bytes(2, "little")
        hello = bytes([_VERSION_MIN, _VERSION_MAX, wants_answer, self.window]) + numbers + self.boot_id + self._peer
        self._emit(_HELLO, 0, hello)

    def _receive_hello(self, payload, now):
        """Learn who is there. Later versions may say more behind what we know."""
        if len(payload) < _HELLO_BYTES or payload[8:16] in (self.boot_id, _NOBODY):
            self.statistics.strays += 1  # our own echo, or nobody's
            return
        version = min(_VERSION_MAX, payload[1])
        if version < max(_VERSION_MIN, payload[0]):
            self._follow(_FOREIGN, now, "version")
            return
        restarted = payload[8:16] != self._peer
        if restarted:
            self._follow(_MET, now, "restarted")
            self._hello_at, self._hello_ms = now + _HELLO_MS_MIN, _HELLO_MS_MIN
            self.statistics.sessions += 1
            self._fresh = True
            self._new_session(payload[8:16])
        self._version = version
        self._peer_window = min(max(payload[3], 1), _WINDOW_MAX)
        self._peer_mtu = min(max(int.from_bytes(payload[4:6], "little"), _MTU_MIN), self.frame_bytes_max)
        self._peer_message_bytes_max = int.from_bytes(payload[6:8], "little")
        if payload[16:24] == self.boot_id:
            self._follow(_NAMED, now)
        if payload[2] or restarted:
            self._say_hello()

    def _follow(self, event, now, reason=None):
        """Go where the table says, and tell of it."""
        before, state = self.state, TRANSITIONS[_EVENTS * self.state + event]
        if state == _NONE:
            return
        if state != UP:
            if before == UP or (state == INCOMPATIBLE and before != INCOMPATIBLE):
                self._events.append(LinkDown(reason))
            self.statistics.downs += before == UP
            self._hello_at, self._hello_ms = now, _HELLO_MS_MIN
        elif before != UP:
            self._events.append(LinkUp(self._peer, self._version, self._peer_mtu, self._fresh))
            self._fresh = False
            self._repetitions = 0
            if self._outstanding:
                self._repeat_at = now  # the peer may have missed it while it was away
        self.state = state

    # Frames

    def _emit(self, kind, sequence, payload):
        self._frames.append(encode(bytes([kind, sequence]) + self._tag, payload))

    def _receive_body(self, body, now):
        kind, sequence, payload = body[0], body[1], body[_HEADER_BYTES:]
        if kind == _HELLO:
            self._receive_hello(payload, now)
        elif TRANSITIONS[_EVENTS * self.state + _TAGGED] == _NONE or body[2:4] != self._tag:
            self.statistics.strays += 1
            if self._answered_at is None or now - self._answered_at >= _HELLO_MS_MIN:
                self._answered_at = now  # a peer of another session is told who we are, but not for each frame of a burst
                self._say_hello()
        else:
            self._follow(_TAGGED, now)  # only who knows us can know the tag
            if kind in (_DATA, _DATA_LAST):
                self._receive_data(kind, sequence, payload)
            elif kind == _ACK:
                self._receive_ack(sequence, now)
            elif kind == _BUSY and len(payload) >= 2:
                self._receive_busy(int.from_bytes(payload[:2], "little"), now)
            elif kind == _RESEND:
                self._receive_resend(sequence, now)
            else:
                self.statistics.strays += 1

    def _released(self):
        """Return the sequence up to which the peer is acknowledged."""
        return ((self._held[0] if self._held else self._receive_sequence) - 1) & 255

    def _receive_data(self, kind, sequence, payload):
        ahead = (sequence - self._receive_sequence) & 255
        waiting = (self._receive_sequence - 1 - self._released()) & 255  # for our owner
        if ahead > 127:
            self.statistics.duplicates += 1
            if 256 - ahead > waiting:
                self._emit(_ACK, self._released(), b"")
            else:
                self.busy(_RTO_MS_MAX)
        elif ahead:
            self.statistics.strays += 1
            if ahead <= self._passed:
                self._emit(_RESEND, self._receive_sequence, b"")
            self._passed = ahead
        elif (
            waiting < self.window
            and len(self._fragments) < _FRAGMENTS_MAX
            and sum([len(each) for each in self._fragments]) + len(payload) <= self.message_bytes_max
        ):
            self._passed = 127
            following = (sequence + 1) & 255
            if kind == _DATA:
                self._fragments.append(payload)
                self._receive_sequence = following
                if not waiting:
                    self._emit(_ACK, sequence, b"")
            else:
                held = self._held + [sequence]
                whole = b"".join(self._fragments + [payload]) if self._fragments else payload
                self._events.append(Message(whole, (self.statistics.sessions, sequence)))
                self._held, self._receive_sequence = held, following
                self.statistics.messages_received += 1
                self._fragments = []
        else:
            self.statistics.strays += 1  # more than our window before the first was acknowledged, or one without end

    def _receive_ack(self, sequence, now):
        count = ((sequence - self._send_sequence) & 255) + 1
        if count > len(self._outstanding):
            self.statistics.strays += 1
            return
        for _ in range(count):
            if self._outstanding[0][0] == _DATA_LAST:
                self._events.append(Delivered(self._queue[0][0]))
                self._queue.pop(0)
                self._place -= 1
                self.statistics.messages_sent += 1
            self._outstanding.pop(0)
            self._send_sequence = (self._send_sequence + 1) & 255
            self._sent = max(0, self._sent - 1)
            self._timed -= 1
        if self._sent_at is not None and self._timed < 0:
            self._timer.measure(now - self._sent_at)
            self._sent_at = None
        if self._suspect:
            self._sent, self._suspect = 0, False
        self._repetitions = 0
        if self._outstanding:
            self._wait(now)
        else:
            self._repeat_at = None

    def _wait(self, now):
        """Begin to wait for the oldest that is outstanding, or about to be."""
        self._patient_until = now + _BUSY_MS_MAX
        self._repeat_at = now + self._timer.rto

    def _receive_busy(self, duration_ms, now):
        self.statistics.busy_received += 1
        self._repetitions = 0
        self._suspect = False
        self._sent_at = None
        if self._repeat_at is not None:
            self._repeat_at = min(now + duration_ms, self._patient_until)

    def _receive_resend(self, sequence, now):
        place = (sequence - self._send_sequence) & 255
        if place >= len(self._outstanding):
            self.statistics.strays += 1
            return
        self._sent, self._suspect = place, False
        self._repetitions = 0
        self._repeat_at = now + self._timer.rto

    def _send_data(self, now):
        """Send what goes again, or the next fragment if the peer's window allows it."""
        if self._sent < len(self._outstanding):
            self._sent += 1
            self._transmit(self._sent - 1, True)
        elif self._sent < self._peer_window and self._place < len(self._queue):
            message = self._queue[self._place][1]
            start, end = self._offset, self._offset + body_size_max(self._peer_mtu) - _HEADER_BYTES
            kind = _DATA if end < len(message) else _DATA_LAST
            outstanding = self._outstanding + [(kind, message, start, end)]
            if not self._outstanding:
                self._wait(now)
            self._outstanding = outstanding
            if self._sent_at is None:
                self._sent_at, self._timed = now, self._sent
            self._sent += 1
            self._offset = end if kind == _DATA else 0
            self._place += kind == _DATA_LAST
            self._transmit(self._sent - 1, False)

    def _transmit(self, place, repeated):
        """Send what is outstanding at a place. What the heap has no room for counts as sent, and goes later."""
        if repeated:
            self.statistics.repetitions += 1
            self._sent_at = None
        kind, message, start, end = self._outstanding[place]
        self._emit(kind, (self._send_sequence + place) & 255, message[start:end])
