"""When a board sleeps between its samples, and what it sends before. docs/protocol/boards.md, section 18, "Sleep".

Loaded if `covey.json` has "sleep".

1. It sleeps until its next sample, unless it has something to send: a batch that is due before that, an answer, a
   restart. A batch goes a little early rather than causing its own wake-up.
2. It first announces that it is awake, and closes or sends no batch before it has received the time, for a second at
   most: its clock cannot be trusted after sleep, and acknowledgements come first.
3. It is finished when the gateway has accepted everything, and nothing arrived for a moment. Then it announces how long
   it sleeps, and sleeps once that is accepted. Its gateway keeps messages for it.
4. A gateway that accepts nothing is left alone after three seconds, until the next batch is due; ten after a start.
5. Without a collector, or while a firmware arrives or is on trial, it stays awake.
6. A pin can wake it early: it samples and sends at once.
7. Only what `kept_state.py` stores survives deep sleep: in the clock's memory if the port has enough; else on flash, at
   most every five minutes: until then the sleep is a light one.
"""

try:
    from covey_boards.shared import line_orders
except ImportError:
    import line_orders
try:
    from micropython import const
except ImportError:
    const = int

_LISTEN_US = const(300_000)  # a gateway looks for what it has to say each quarter of a second
_SETTLE_US = const(30_000)
_TIME_US = const(1_000_000)
_PATIENCE_US = const(3_000_000)
_START_US = const(10_000_000)
_SHORTEST_US = const(100_000)
_NEVER_MS = const(1 << 60)
_SLICE_US = const(7_000_000)  # of a light sleep: the watchdog may go on counting
_FLASH_US = const(300_000_000)  # 288 times a day, each of two writes


class Sleeping:
    """The sleep of one board.

    Args:
        board: a `core.Core`.
        power: as `power.Power`.
        deep: whether its RAM may be lost.
    """

    def __init__(self, board, power, deep):
        self.until_us = None  # when it is to sleep now: until then
        self.flash_us = None  # when its state was written to flash last
        self._board, self._power, self._deep = board, power, deep
        self._since_us = self._received_us = 0  # when it began to speak, None while it does not; when something came last
        self._patience_us = _START_US
        self._said = False  # for how long it sleeps
        self._alone = False  # no gateway took anything the last time
        self._by_pin = False
        self._frames = 0
        self._stale = board._time

    @property
    def is_quiet(self):
        """Whether it has not begun to speak."""
        return self._since_us is None

    def may_work(self, now_us):
        """Say whether a batch may be closed, and anything sent (rule 2)."""
        if self._since_us is None:
            return False
        board = self._board
        return not board._up or board._time is not self._stale or now_us >= self._since_us + _TIME_US

    def turn(self, now_us):
        """Decide; `until_us` says that it is time."""
        board = self._board
        frames = board.link.decoder.frames
        if frames != self._frames:
            self._frames, self._received_us = frames, now_us
        if board._collector is None or board.trial is not None or board.update is not None:
            self._received_us = now_us  # rule 5
        elif self._since_us is None:
            if self._wants_to_speak(now_us):
                self._since_us = self._received_us = now_us
                self._said = False
                board.link._hello_at = 0
                if board._up:
                    board.link._say_hello()  # over UDP a stream begins with it
                board.reporting.say(line_orders.SLEEP, 0)
            else:
                board.link._hello_at = _NEVER_MS  # no radio is joined for it
                if board._sampling._at_us > now_us and not board._sampling._lead_us:
                    self.until_us = board._sampling._at_us
        elif now_us >= self._received_us + self._patience_us:
            self._alone = True
            self._rest()
        elif board._up:
            self._take_leave(now_us)

    def _wants_to_speak(self, now_us):
        """Rule 1."""
        board = self._board
        next_us, whole = board._sampling._at_us, board._whole
        for batch in [board._batch] if whole is None else [board._batch, whole.batch]:
            if batch.count and (self._by_pin or next_us > batch.opened_us + board._settings.batch_us):
                batch.opened_us = now_us - board._settings.batch_us
        if board._closed is not None or board._batch_is_due(now_us):
            return True
        waits = board._reply or board._delivered or board._restarting or board.link.queued_bytes()
        return not self._alone and bool(waits or [entry for entry in board.outbox.entries if not entry.times])

    def _take_leave(self, now_us):
        """Rule 3."""
        board = self._board
        queued = board.link.queued_bytes()
        busy = board._reply or board._delivered or board._closed is not None or board._batch_is_due(now_us)
        if busy or [entry for entry in board.outbox.entries if not entry.times]:
            self._said = False
        elif self._said:
            if not queued and now_us >= self._received_us + _SETTLE_US:
                self._alone = False
                self._rest()
        elif not queued and now_us >= self._received_us + _LISTEN_US:
            wait_us = max(0, board._sampling._at_us - now_us)
            self._said = board.reporting.say(line_orders.SLEEP, wait_us // 1000) is not None

    def _rest(self):
        self._since_us = None
        self._patience_us = _PATIENCE_US
        self._by_pin = False

    def sleep(self, clock, watchdog=None):
        """Sleep until `until_us`, if that says so; from a deep sleep nothing comes back."""
        if self.until_us is None:
            return
        wait_us, self.until_us = self.until_us - clock.now_us(), None
        board = self._board
        if wait_us < _SHORTEST_US:
            return
        if board._time is not None:
            board._time = board._time[0], board._time[1], False
        self._stale = board._time
        if self._deep:
            self._sleep_deeply(wait_us, clock)
        left_us, woken = wait_us, False
        while left_us > 0 and not woken:
            asked_us = min(left_us, _SLICE_US)
            began_us, by_clock_us = clock.now_us(), self._power.now_us()
            self._power.light(asked_us // 1000)
            slept_us = max(clock.now_us() - began_us, self._power.now_us() - by_clock_us)
            clock._now += slept_us - (clock.now_us() - began_us)  # its counter may have stood still
            left_us -= slept_us
            woken = slept_us < asked_us - asked_us // 20 - 20_000
            if watchdog is not None:
                watchdog.feed()
        if woken:
            self.woken_early()

    def woken_early(self):
        """Rule 6."""
        self._by_pin = True
        self._board._sampling.sample_now()

    def _sleep_deeply(self, wait_us, clock):
        """Rule 7; comes back where the state can be kept nowhere now."""
        if self._keep(wait_us, clock.now_us()):
            self._power.deep(wait_us // 1000)

    def _keep(self, wait_us, now_us):
        """Keep the state; return whether that could be done."""
        try:
            from .kept_state import encoded
        except ImportError:
            from kept_state import encoded
        if self._power.keep(encoded(self._board, self, now_us, wait_us, True)):
            return True
        if self.flash_us is not None and now_us < self.flash_us + _FLASH_US:
            return False
        before, self.flash_us = self.flash_us, now_us
        if self._power.write(encoded(self._board, self, now_us, wait_us, False)):
            return True
        self.flash_us = before
        return False


def begin(board, power, deep, clock):
    """Give a board its sleep, and what an earlier life of it kept through one."""
    board.sleeping = Sleeping(board, power, deep)
    kept = power.take() if deep else None
    if kept is not None:
        try:
            from .kept_state import restore
        except ImportError:
            from kept_state import restore
        restore(board, board.sleeping, kept, power.now_us(), clock)
