"""A fleet as one of its devices knows it, field by field: what `covey fleet`, its page and the alerts draw."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from covey.app.groups.collectors import GroupCollector
from covey.app.groups.requests import WaitingInvitation


@dataclass(frozen=True, slots=True)
class FleetValue:
    """The last reading of one series; `clock` tells what its time is worth.

    It is "synchronised", "unsynchronised", or "asserted" by who measured. `alarm`: what the newest alarm of the series
    says, "raised", "ended" or "changed", at `alarm_at_us`; empty for none.
    """

    name: str
    unit: str
    value: float | bool | str
    at_us: int
    clock: str
    alarm: str = ""
    alarm_at_us: int | None = None


@dataclass(frozen=True, slots=True)
class FleetCost:
    """What the link of a device has cost, as it reported at `at_us`: bytes of today and of this month (UTC).

    `today_bytes` is None if it reported on another day. `forecast_bytes`: of the month, None if unknown.
    `budget_bytes`: of each `period`, "day" or "month"; None without a budget. `outlook`: whether that lasts: "fine",
    "low", "early" (the forecast exceeds it) or "used up"; empty if unknown.
    """

    at_us: int
    today_bytes: int | None
    month_bytes: int
    forecast_bytes: int | None
    budget_bytes: int | None = None
    period: str = ""
    outlook: str = ""


@dataclass(frozen=True, slots=True)
class FleetDevice:
    """One device of the fleet. Times are microseconds since 1970 by this device's clock, None for never.

    `presence`: one of `CONDITIONS`, or "itself", since `presence_since_us`. `newest_at_us`: the time of its newest
    reading, `landed_at_us`: when a collector took its newest message, `lag_seconds`: how old that reading was by then.
    `waiting`: messages that wait here for it, the oldest since `waiting_since_us`. `lost`: messages that it has
    admitted to be lost, by the reason, in what was looked at; the last of these records landed at `lost_at_us`.
    `left_out`: whether it has more series than are shown. `board`: it hangs behind a gateway, by its key `gateway`.
    `waits_because`: why nothing of that has gone yet. `missing`: numbers of its links that later ones have overtaken.
    `version`: what it says that it runs. `clock`: what the time of its newest reading is worth, as of a `FleetValue`.
    `features`: what it announces that it supports. `next_at_us`: when a device that is asleep connects again.
    `cost`: of its link this month, None if it has not reported any. `alarms`: how many of its series are in alarm, the
    first of them `alarm_series`: an alarm has begun that has not ended.
    """

    device: str
    key: str
    label: str
    board: bool
    groups: tuple[str, ...]
    presence: str
    presence_since_us: int | None
    seen_at_us: int | None
    newest_at_us: int | None
    landed_at_us: int | None
    lag_seconds: int | None
    waiting: int
    waiting_since_us: int | None
    lost: dict[str, int]
    lost_at_us: int | None
    series: int
    left_out: bool
    values: tuple[FleetValue, ...]
    gateway: str = ""
    waits_because: str = ""
    missing: int = 0
    version: str = ""
    clock: str = ""
    features: tuple[str, ...] = ()
    next_at_us: int | None = None
    cost: FleetCost | None = None
    alarms: int = 0
    alarm_series: tuple[str, ...] = ()


Severity: TypeAlias = Literal["urgent", "warning", "notice"]
"""`urgent`: readings are being lost or delayed, act now; `warning`: it may become so, act today; `notice`: for when
there is time."""

SEVERITIES: tuple[Severity, ...] = get_args(Severity)


@dataclass(frozen=True, slots=True)
class FleetTrouble:
    """Something that a person should see to: what, and the command or the hint that helps.

    `device`: the key of the device that it is about; `release`: the id of the release; each may be empty.
    """

    what: str
    hint: str
    device: str = ""
    severity: Severity = "warning"
    release: str = ""


@dataclass(frozen=True, slots=True)
class FleetGroup:
    """A group of this device's, what it is called, and how many of its members are online, this device included.

    `silent`: members that should be here and are not; `lost`, `waiting`: those that lost something, or are waited for.
    `collectors`: those that take its members' readings, the one of most members first.
    """

    group_id: str
    title: str
    members: int
    online: int
    silent: int = 0
    lost: int = 0
    waiting: int = 0
    collectors: tuple[GroupCollector, ...] = ()


@dataclass(frozen=True, slots=True)
class FleetRelay:
    """A relay of this device, in the order in which it tries them; `state` as of a `RelayStatus`."""

    url: str
    state: str


@dataclass(frozen=True, slots=True)
class FleetOrder:
    """An operator's order or plan by `device`, whose label is `label`, at `given_at_us` by that device's clock.

    `groups`: the ids of those that it is in.
    `outcomes`: numbers of devices by result, in the order of `OUTCOMES` in `command_reports`, or in `setting_orders`
    for a setting. `counts`: it is in force; until then `signed` of `needed` operators have approved it.
    """

    id: str
    groups: tuple[str, ...]
    device: str
    label: str
    given_at_us: int
    what: str
    signed: int
    needed: int
    counts: bool
    outcomes: dict[str, int]


@dataclass(frozen=True, slots=True)
class FleetRelease:
    """A roll-out, wave by wave, in numbers of devices; `state` as of a `Release`, `device` and `label` its author.

    `groups`: the ids of those that it is in, a single one or several of a fleet.
    """

    id: str
    groups: tuple[str, ...]
    device: str
    label: str
    began_at_us: int
    what: str
    state: str
    wave: int
    waves: int
    given: int
    done: int
    failed: int
    silent: int
    others: int


@dataclass(frozen=True, slots=True)
class FleetRollback:
    """A device that an installation was tried on, and not well: `back` says whether it is as it was before.

    It counts until the same action ends well there.
    """

    device: str
    label: str
    order: str
    action: str
    why: str
    back: bool
    at_us: int


@dataclass(frozen=True, slots=True)
class FleetFile:
    """A file offered in a group; `fetched` of its encrypted bytes are here, `device` and `label` are its author."""

    id: str
    group_id: str
    name: str
    size: int
    device: str
    label: str
    offered_at_us: int
    state: str
    fetched: int
    holders: int


@dataclass(frozen=True, slots=True)
class FleetVersion:
    """How many devices say that they run this."""

    version: str
    devices: int


@dataclass(frozen=True, slots=True)
class Fleet:
    """All groups of this device, at a time; `FleetView.devices` yields the devices.

    `reads_vault`: whether last values and losses are known here; `listens`: whether an agent runs and reaches a relay;
    `is_read`: whether the vault was looked at, which takes longer than all else. `invitations`: to further groups,
    which a person here has to answer. Of orders, releases and files the newest ones, the newest first. `relays`: those
    of this device, in the order in which it tries them.
    """

    at_us: int
    summary: str
    groups: tuple[FleetGroup, ...]
    orders: tuple[FleetOrder, ...]
    invitations: tuple[WaitingInvitation, ...]
    troubles: tuple[FleetTrouble, ...]
    reads_vault: bool
    listens: bool
    is_read: bool = True
    releases: tuple[FleetRelease, ...] = ()
    rollbacks: tuple[FleetRollback, ...] = ()
    files: tuple[FleetFile, ...] = ()
    versions: tuple[FleetVersion, ...] = ()
    relays: tuple[FleetRelay, ...] = ()
