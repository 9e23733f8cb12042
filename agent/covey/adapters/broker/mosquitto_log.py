"""What mosquitto's log tells of its clients.

`SubscriptionWatch` finds accounts that subscribe to more than a broker's memory should hold.
mosquitto 2.0 grants every subscription. Its ACL file controls only the delivery of messages, and its dynamic-security
plugin has no pattern for the name of the client. Each level of a filter costs it some 600 bytes, so
6,000 filters of 150 levels, which take a client half a second, bring it to `memory_limit`, where 2.0.11 exits.

A device subscribes to its inbox (4 levels) and for a while to a rendezvous (5 levels). So levels have a budget, for a
short time and for a day, and an account that exceeds it is removed before others notice.

`SessionWatch` finds sessions that mosquitto 2.0 lists twice. When it reads passwords again, it disconnects every
session that they do not fit: also those of clients that are away, whose password has changed or, since its own start,
is not known. Each time it puts the session on its list of those that end at some time, and of two entries the second
stays when the session is freed: its owner has come back, or its time is over. The next connection gets that memory, is
taken for a session whose time is over, and is freed while it is open. 2.0.11 then crashes; 2.1 keeps one entry.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from covey.limits.broker import (
    SUBSCRIBED_LEVELS,
    SUBSCRIBED_LEVELS_DAILY,
    SUBSCRIBED_SECONDS,
    SUBSCRIPTION_ACCOUNTS,
)

_DAY_S = 86_400.0
_SUBSCRIPTION = re.compile(rb"\S+: ([0-9a-f]{32}|enrol) [012] (.*)\n?")
"""A line of mosquitto's `log_type subscribe`: time, client id (which is the user name), QoS, filter."""


@dataclass(slots=True)
class _Spent:
    """Levels that an account has subscribed to since the beginning of two windows."""

    since_s: float
    levels: int
    day_since_s: float
    day_levels: int


class SubscriptionWatch:
    """What each account has subscribed to; bounded by the number of accounts."""

    def __init__(self) -> None:
        self._accounts: dict[bytes, _Spent] = {}

    def is_subscription(self, line: bytes) -> bool:
        """Say whether a line of the log tells of a subscription."""
        return _SUBSCRIPTION.fullmatch(line) is not None

    def note(self, line: bytes, now_s: float) -> str | None:
        """Note a line of the log; return the account that overdraws its budget with it, once for each budget."""
        found = _SUBSCRIPTION.fullmatch(line)
        if found is None:
            return None
        account, levels = found[1], found[2].count(b"/") + 1
        spent = self._accounts.setdefault(account, _Spent(now_s, 0, now_s, 0))
        if now_s - spent.since_s >= SUBSCRIBED_SECONDS:
            spent.since_s, spent.levels = now_s, 0
        if now_s - spent.day_since_s >= _DAY_S:
            spent.day_since_s, spent.day_levels = now_s, 0
        spent.levels += levels
        spent.day_levels += levels
        overdrawn = spent.levels > SUBSCRIBED_LEVELS or spent.day_levels > SUBSCRIBED_LEVELS_DAILY
        if overdrawn or len(self._accounts) > SUBSCRIPTION_ACCOUNTS:
            del self._accounts[next(iter(self._accounts)) if not overdrawn else account]
        return account.decode() if overdrawn else None


_ACCOUNT = rb"[0-9a-f]{32}|enrol"
_CLIENT = re.compile(
    rb"\S+: (?:New client connected from \S+ as (?P<connected>%(account)s) .*"
    rb"|Client (?P<replaced>%(account)s) already connected.*"
    rb"|Client (?P<left>%(account)s) (?P<how>.*)"
    rb"|Expiring client (?P<expired>%(account)s) .*)\n?" % {b"account": _ACCOUNT}
)


class SessionWatch:
    """Which sessions mosquitto lists twice; bounded by the number of accounts."""

    def __init__(self) -> None:
        self._connected: set[bytes] = set()
        self._listed_twice: set[bytes] = set()
        self.is_dangling = False

    def note(self, line: bytes) -> None:
        """Note a line of the log."""
        found = _CLIENT.fullmatch(line)
        if found is None:
            return
        if freed := found["connected"] or found["expired"]:
            self.is_dangling |= freed in self._listed_twice
        if found["connected"]:
            self._connected.add(found["connected"])
        elif found["left"] in self._connected:
            self._connected.discard(found["left"])
        elif found["left"] and found["how"] == b"disconnected.":  # refused ones are "disconnected, not authorised."
            self._listed_twice.add(found["left"])
