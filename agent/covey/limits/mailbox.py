"""Mailboxes: what one stores, for how long, and how much is sent at once."""

from __future__ import annotations

from covey.limits.units import MIB

HELLO_US = 10_000_000
"""How long a mailbox may leave a greeting, or a question, without an answer (002.28, F-006); a session that was greeted
and has asked for nothing in this time gives its place away first."""

GREETING_US_MAX = 300_000_000
"""The longest pause before a mailbox that does not answer is greeted again: as long as the longest retry of a link."""

GREETING_US = 600_000_000
"""How often a mailbox that answers is greeted again: a NOTIFY that was lost delays what it spoke of by so much."""

HELD_BACK_US = 3_600_000_000
"""How often what this device could not take yet is asked for again where nothing of its groups has changed."""

MAILBOX_SESSIONS = 1_024
"""Devices that a mailbox speaks with at once (002.29, F-007): a group of the largest size, in half a megabyte."""

SESSION_US = 1_800_000_000
"""After so long without a word a session ends: three greetings that were lost."""

PULL_BLOBS = 100
"""What a PULL without a number of its own brings (002.07)."""

MAXIMUM_PULL_BLOBS = 1_000
"""What one PULL brings at most, whatever it asks for (002.31, F-013)."""

PULL_BYTES = 400_000
"""What one PULL brings at most, one blob apart: under half of what every relay has to take."""

MAXIMUM_CURSOR_GAP = 10_000
"""Cursors that one PULL covers at most (002.34, F-019): what a mailbox claims beyond them is not believed."""

MAXIMUM_BLOB_TTL_S = 2_592_000
"""The longest that a blob is kept, 30 days of the mailbox's own running."""

BLOB_TTL_S = 604_800
"""How long it is kept where its sender does not say, 7 days."""

PUSH_RENEWAL_US = 302_400_000_000
"""After so long, half of a blob's default time, waiting messages are pushed again: a mailbox that was emptied or
restored meanwhile may have dropped them."""

INBOX_BLOBS = 10_000
"""Blobs that wait for one device: its cursors then fit into one PULL's gap."""

INBOX_BYTES_KEPT = 256 * MIB
"""...and their bytes: a night of pictures, and no disk full of them."""

PUSHES_PER_SECOND = 500
"""Blobs that a mailbox takes in a second for ever, of all senders (002.35, SR-001): half of a small machine's disk."""

PUSHES_SAVED = 20_000
"""...and at once: two full inboxes."""

INBOX_PUSHES_PER_SECOND = 100
"""Blobs that it takes for one device in a second for ever."""

INBOX_PUSHES_SAVED = 10_000
"""...and at once: as many as its inbox holds."""

ANSWERS_WAITING = 1_024
"""Answers that a mailbox owes at once; of more, the oldest goes, and is asked for again."""

ANSWERS_OF_ONE = 64
"""The same of one device, so that nobody's questions push out the answers to others."""

NOTIFY_US = 1_000_000
"""Between two NOTIFYs to one device: one speaks for all that came meanwhile."""

WAKE_US = 60_000_000
"""Between two calls of one device's wake hooks."""

WAKE_HOOKS = 4
"""Wake hooks of one device."""

MAXIMUM_HOOK_BYTES = 256
"""A wake hook's target in UTF-8: a topic or an address."""

WAKES_WAITING = 256
"""Calls of wake hooks that wait to be made; of more, the newest goes: the next blob brings another."""

MAXIMUM_ERROR_BYTES = 256
"""What an ERROR says in UTF-8."""

DELETED_RANGES = 512
"""Ranges of cursors in one DELETE: every other blob of the largest PULL."""

MAILBOXES_AT_ONCE = 2
"""Mailboxes that one recipient's messages are pushed to: two, so that one may fail."""

MAILBOXES_GREETED = 8
"""Mailboxes that one device asks for what waits."""

SILENT_RETRIES = 3
"""Retries that a recipient leaves unanswered before its messages go to mailboxes: about half a minute."""

PUSH_WINDOW = 32
"""Blobs on their way to one mailbox: enough to keep a line busy, few enough for its memory."""

PUSH_WINDOW_BYTES = 2 * MIB
"""...and their bytes; one always goes."""

REFUSED_US = 600_000_000
"""How long nothing more is pushed for a recipient whose inbox a mailbox has called full."""

EXPIRED_BLOBS_AT_ONCE = 1_024
"""Blobs that one transaction lets expire."""

MAILBOX_LOOK_US = 60_000_000
"""How often a mailbox looks for what has expired, and counts the time that it runs."""
