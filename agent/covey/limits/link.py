"""Links: windows, gaps, acknowledgements, retries, incarnations."""

from __future__ import annotations

from covey.limits.units import KIB, MIB

LINK_WINDOW_MESSAGES = 1_024
"""Messages in flight to one recipient. A collector answers after landing, a second or more later: enough to keep a link
busy meanwhile, few enough to stay in memory."""

LINK_WINDOW_BYTES = 4 * MIB
"""Bytes in flight to one recipient; at least one message always goes."""

LINK_WINDOW_CONTROL_MESSAGES = 64
"""Control messages in flight to one recipient, in addition to the others: few are ever in flight."""

LINK_WINDOW_HISTORY_MESSAGES = 4
"""Messages of a group's history in flight to one recipient: each carries up to 320 KiB, and mostly one is asked for at
a time."""

LINK_WINDOW_ALARM_MESSAGES = 64
"""Alarms in flight on one link, next to all else: few of a device at a time, and each series' are bounded."""

LINK_WINDOW_LIVE_MESSAGES = 64
"""New telemetry in flight to one recipient in addition to a backlog: a batch is made every few seconds."""

LINK_WINDOW_RESTART_MESSAGES = 20
"""Messages that go at once to a recipient that is there again: as many as it answers at once
(`ACKNOWLEDGE_EVERY_MESSAGES`). Its answer opens the window."""

MAXIMUM_SEQUENCE_GAP = 10_000
"""How far ahead of the contiguous run a link sequence may be (002.34): bounds what a receiver remembers."""

MAXIMUM_RECEIVED_RANGES = 1_024
"""Ranges of link sequences beyond the contiguous run that a receiver remembers: a window, each message behind a hole.
A further message costs in proportion, and a hostile author would scatter as many as it may."""

MAXIMUM_ACKNOWLEDGED_RANGES = 64
"""Ranges in one acknowledgement. What does not fit goes into the next one, after the first holes closed."""

MAXIMUM_IMPRINTS = 1_024
"""Imprints in one acknowledgement, of 4 bytes each: a window."""

MAXIMUM_IMPRINT_RUNS = 256
"""Runs of consecutive numbers that they stand for."""

IMPRINTS_REPEATED = 16
"""The newest numbers, which acknowledgements name once more for a while after a start, and where they name nothing new:
what the process before had yet to acknowledge then costs no resends."""

IMPRINTS_KEPT = 1_024
"""The newest numbers of a link of which imprints are kept, in 9 bytes each: a window."""

ACKNOWLEDGED_MESSAGES_KEPT = 512
"""The newest acknowledged telemetry of each recipient that its sender keeps while its outbox is less than half full: of
a device with a message a minute more than eight hours, the age of an hourly or nightly backup."""

ACKNOWLEDGED_BYTES_KEPT = 16_384
"""The longest such message: all of one recipient then take 8 MiB at most, and usually half a megabyte."""

IMPRINTS_OF_AUTHOR = 4 * IMPRINTS_KEPT
"""...and of all incarnations of an author together, or of a link with holes: what is under way lies about these."""

MAXIMUM_LOSS_RANGES = 64
"""Ranges of link sequences, and of telemetry numbers, in one loss record; more go into another one."""

ACKNOWLEDGE_DELAY_US = 200_000
"""An acknowledgement waits this long for company."""

ACKNOWLEDGE_EVERY_MESSAGES = 20
"""...or for this many messages (measured: 5 % of the sender's CPU)."""

ACKNOWLEDGED_AT_START = 256
"""Links that are acknowledged once more when an agent starts, those seen last: under a second of a small machine."""

RETURNED_US = 10_000_000
"""Without a relay for so long, a device acknowledges once more when it has one: retry times were still short before."""

RETRY_US_MIN = 1_000_000
"""Shortest wait for an acknowledgement before a resend."""

RETRY_US_INITIAL = 5_000_000
"""The wait before any round trip was measured: a collector answers only after landing."""

RESTED_RETRY_US = 10_000_000
"""Longest retry time that outlasts the messages it grew with, where the measured one is shorter: an answer that takes
so long is taken for the path, a longer one for an absence."""

RETRY_US_MAX = 300_000_000
"""Longest wait: a recipient that comes back hears from us within five minutes even if the relay lost all."""

RESEND_KEPT_US = 600_000_000
"""How much longer than until the next resend a relay keeps one: twice the longest wait, as clocks and lines vary. The
first copy it keeps as long as it likes."""

REPLACE_INCARNATION_US = 86_400_000_000
"""How often one recipient may have a device begin another incarnation. Others remember 1,024 of a device: one hostile
member must not use them up."""

POISON_TRIES = 5
"""How often a message that the relay calls too large is offered to it before it is set aside."""

SUSPECT_BYTES_MIN = KIB
"""The smallest message that a relay may be suspected of hanging up on. Every broker takes more."""

HANG_UPS = 3
"""Connections in a row that end over a message that was alone before the relay counts as not taking its size: a bad
line loses one or two by chance."""

HANG_UP_WITHIN_US = 300_000_000
"""How long before the end of a connection a message may have been sent for the relay to have hung up on it: time for
256 KiB at 1 kB/s, and twice the time in which a silent connection is noticed."""

SAME_SIZE_BYTES = 256
"""Envelopes whose sizes differ by at most this count as one size: the same message is longer when it is sealed for a
first contact than under a link key."""

REFUSED_SIZE_US = 3_600_000_000
"""How long a size is not offered to a relay that hung up on it. The wait doubles with each further hang-up ..."""

REFUSED_SIZE_US_MAX = 86_400_000_000
"""... up to this: a relay that was mended gets large messages again within a day."""

INCARNATIONS = 1_024
"""Incarnations of one author whose links are remembered: a device that lost its state so often is broken or hostile."""

ACKNOWLEDGED_RUNS_KEPT = 256
"""Runs of acknowledged telemetry that a sender remembers of each recipient, 40 bytes each: the hourly LINK message ends
a run, so ten days at least. For a recipient restored from an older backup, only these are reported."""

MAXIMUM_UNSUPPORTED = 64
"""Messages of unknown types that one acknowledgement names: its author only needs to know that there are some."""

CONNECT_EVERY_US_MIN = 600_000_000
"""Shortest interval of `link.connect`: a connection costs 2 to 5 kB, more than ten minutes of an open one."""

CONNECT_EVERY_US_MAX = 7 * 86_400_000_000
"""Longest one: members give up what waits for a silent device only later."""

AT_SPREAD_US = 900_000_000
"""Over how long a fleet spreads that connects at one time of day: a thousand devices, one a second."""

WINDOW_QUIET_US = 6_000_000
"""A window closes when nothing was sent or received for so long: three round trips of a satellite, with a delayed
acknowledgement."""

WINDOW_ANSWER_US = 30_000_000
"""The same while a recipient owes an answer: a collector lands a segment first, within 10 s."""

WINDOW_US_MAX = 3_600_000_000
"""A window never lasts longer, so that a busy link does not make a schedule pointless. What is left waits."""

SESSION_S = 7 * 86_400
"""How long a relay is asked to queue for a device that is away, or three intervals of `link.connect`, if longer."""

GRANTED_BYTES = 16_384
"""What may be counted on the link before the count is noted again, at least: what a power cut adds to it at most ..."""

GRANTED_PART = 50
"""... or this part of the month so far, if that is more: a busy hub does not write for each megabyte."""

NOTED_US = 600_000_000
"""Between two notes of the count while it changes little: `covey status` shows it so late at most."""

NOTED_BYTES = 1_024
"""A smaller change of the count waits."""

COST_REPORT_US = 3_600_000_000
"""Between two beats that tell collectors what the link has cost, where a device stays connected: 24 a day of 320 bytes
at most, a third of a percent of what a day costs with the default settings."""

BUDGET_BYTES_A_DAY_MIN = 10_000
"""Smallest `link.budget`: a connection with a full TLS handshake and a heartbeat, twice, since one may fail."""

BUDGET_MARGIN_BYTES = 2_500
"""What of a budget is kept for the end of a connection, at least: what is under way, and the count of one second."""

WINDOW_COST_BYTES = 5_000
"""What a window is expected to cost: connecting with a full TLS handshake, a beat, and its headers."""

BUDGET_GRANTED_BYTES = 500
"""What may be counted with a budget before the count is noted again, at least: a message with its answer ..."""

BUDGET_GRANTED_PART = 100
"""... or this part of the budget's day, if that is more. A power cut costs so much, and in a window what it costs."""

METERED_WINDOW = 8
"""Deliveries that a relay may send without an answer to a device with a budget, at most: few are under way when it
ends ..."""

DELIVERY_BYTES = 1_500
"""... and one for so much of its margin: two short messages with headers and answers."""
