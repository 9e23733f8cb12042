"""How much of what comes is dealt with in a time: in tokens, of which each envelope costs some."""

from __future__ import annotations

NEWS_TOKENS = 1
"""What an envelope costs that brings a new message, or an acknowledgement that frees something."""

WORTHLESS_TOKENS = 20
"""What one costs that brings nothing: it does not open, its author may not speak, it is a repetition or says nothing
new. All of its work is the receiver's loss; honest devices send few."""

THROTTLED_TOKENS = 5
"""What one costs of an author whose tokens are used up: it is opened, and neither verified nor read."""

DEFECT_TOKENS = 2_000
"""The cost of an envelope that triggers a defect: two rebuilt nodes and two commits."""

AUTHOR_TOKENS_PER_SECOND = 2_000
"""What each author is given: 2,000 new messages a second, more than one link carries, or 100 worthless envelopes."""

AUTHOR_TOKENS = 81_920
"""What it can save up: after an outage four windows of 1,024 messages may come again, or eighty of new ones."""

ALL_TOKENS_PER_SECOND = 20_000
"""What all are given together: 20,000 new messages a second, which no machine of Covey's reaches, or 1,000 worthless
envelopes, about half of a small one's time."""

ALL_TOKENS = 163_840
"""What all can save up: 1,000 devices that return at once may each repeat eight messages, in addition to new ones."""

RATED_AUTHORS = 4_096
"""Authors whose tokens are remembered, in less than a megabyte: four times the largest group. Of more, the one that was
heard longest ago is forgotten; for strangers to push one out costs them the tokens of all."""

DROPPED_LINES = 64
"""Authors that have lines of their own in such a time; others share one, as a stranger has as many keys as it likes."""

DROPPED_LINE_US = 60_000_000
"""Between two lines of the log that tell of dropped envelopes of one author; counters tell of each."""
