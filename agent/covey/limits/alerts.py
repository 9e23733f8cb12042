"""Bounds of alerts, all of them this machine's own."""

from __future__ import annotations

ALERT_EPISODES = 20_000
"""Things that are wrong at one time, each a row of some 250 bytes in a file of 5 MB; what is beyond is not told."""

ALERT_MESSAGES = 200
"""Messages that wait for one target; the oldest go first, and `covey alert list` counts them."""

SILENCED_DEVICES = 256
"""Devices whose alerts are silenced at one time, each about 90 bytes of the state; more of them are a setting."""

SILENCE_US_MAX = 30 * 86_400_000_000
"""Longest time for which alerts about a device are silenced: nobody remembers it for longer."""

ALERT_PAUSE_US = 300_000_000
"""Least time between two messages of one kind: what comes meanwhile is told in one."""

ALERT_NAMED = 8
"""Devices that one message names; the others are counted."""

ALERT_RETRY_US = 10_000_000
"""Time before a message that was not taken is sent again; doubled each time."""

ALERT_RETRY_MAXIMUM_US = 3_600_000_000
"""Longest time before a message is sent again."""

ALERT_SEND_SECONDS = 20.0
"""Time that a target has for all that it answers, and for a connection; a program, for all that it does."""
