"""A board's reports to its gateway, other than envelopes: identity, counters, errors. docs/protocol/boards.md, section
18.

1. The identity comes first whenever the link comes up, and a report after that.
2. An error goes with a report: the last one since the previous report, else a continuing one; only if the gateway does
   not know it from this session. It brings the next report forward, to ten seconds after the previous one.
"""

try:
    from covey_boards.shared import messages
except ImportError:
    import messages
try:
    from micropython import const
except ImportError:
    const = int

_SOON_US = const(10_000_000)


class Reporting:
    """What is due to be said.

    Args:
        identity: of the board.
        link: to the gateway.
        counters: by name, of whatever counts.
    """

    def __init__(self, identity, link, counters):
        self.trouble = None  # what went wrong since the last report, as a line for people
        self.lasting = None  # what stays wrong, until somebody mends it
        self.identify_due = False
        self.identify_number = None
        self.identity, self.link, self.counters = identity, link, counters
        self._known = None  # what the gateway knows to be wrong
        self._report_at_us = None  # when the last one went

    def begin(self, restarted):
        """Start again with a new peer."""
        self.identify_due = True
        self._known = self._report_at_us = None
        if restarted:  # what still waits for this gateway comes before our name, and is dropped
            self.identify_number = None

    def taken(self, number):
        """Note that the gateway has a message."""
        if number == self.identify_number:
            self.identify_number = None

    def say(self, *fields):
        """Queue a message for the gateway; return its number, or None where there is no room."""
        try:
            return self.link.send(messages.to_line(*fields))
        except ValueError:  # longer than this gateway says that it takes
            return None

    def speak(self, collector, outbox, report_us, now_us):
        """Say what is due."""
        if self.identify_due and self.identify_number is None:
            keys = self.identity.signing_public, self.identity.noise_public, self.identity.proof
            enrolled = collector[1] if collector else bytes(32)
            self.identify_number = self.say(messages.IDENTIFY, *keys, enrolled, messages.SOFTWARE)
            self.identify_due = self.identify_number is None
            return
        news = self.trouble is not None and self.trouble != self._known
        if self._report_at_us is None or now_us >= self._report_at_us + (min(_SOON_US, report_us) if news else report_us):
            self._report_at_us = now_us
            wrong = self.trouble or self.lasting
            if wrong != self._known and self.say(messages.TROUBLE, wrong or "") is not None:
                self._known = wrong
            self.trouble = None
            self.say(messages.REPORT, self._report(outbox, now_us))

    def _report(self, outbox, now_us):
        line, decoder = self.link.statistics, self.link.decoder
        numbers = sorted(self.counters.items())
        numbers += (("uptime_seconds", now_us // 1_000_000), ("outbox_messages", len(outbox.entries)))
        numbers += (("outbox_bytes", outbox.size), ("dropped", outbox.dropped), ("thinned", outbox.thinned), ("repeated", outbox.repeated))
        numbers += (("frames_damaged", decoder.damaged), ("frames_repeated", line.repetitions), ("downs", line.downs))
        return numbers
