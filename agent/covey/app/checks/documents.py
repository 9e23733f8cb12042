"""How a device is, as types: the JSON of `covey status --json` and of the local API, field by field."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from covey.app.boards.documents import BoardStatus
from covey.app.content.documents import ContentStatus
from covey.app.documents import DAY_S, Age, Count, DeviceName, GroupIdText, Says, here_only
from covey.app.loop.link_windows import RESTING
from covey.app.relays.documents import MailboxStatus
from covey.app.telemetry.documents import SensorStatus
from covey.core.link.reported_cost import Outlook
from covey.core.presence.status import CONDITIONS


@dataclass(frozen=True, slots=True)
class RelayStatus:
    """One relay, and how it is with it."""

    url: str
    state: Annotated[str, Says(description="`up`, `resting until the next window`, or the reason why not")]
    seconds: Annotated[Count, Says(description="seconds in this state")]
    noted: str = here_only("")
    """What the last agent has noted, whether or not one runs; empty where none ever has."""

    @property
    def up(self) -> bool:
        """Whether the relay accepts the agent."""
        return self.state == "up"

    @property
    def rests(self) -> bool:
        """Whether the agent has left the relay until the next window of `link.connect`."""
        return self.state == RESTING


@dataclass(frozen=True, slots=True)
class BytesByClass:
    """Bytes of the messages that wait, by their class."""

    control: Count
    data: Count
    telemetry: Count
    history: Count
    alarm: Count


@dataclass(frozen=True, slots=True)
class OutboxStatus:
    """How full the outbox is."""

    messages: Count
    bytes: Count
    maximum_bytes: Count
    bytes_by_class: BytesByClass
    oldest_seconds: Age | None
    oldest_us: int | None = here_only(None)

    @property
    def full(self) -> bool:
        """Whether new messages are refused."""
        return self.bytes >= self.maximum_bytes

    @property
    def nearly_full(self) -> bool:
        """Whether it will be full soon."""
        return self.bytes > 0.8 * self.maximum_bytes

    @property
    def waits_long(self) -> bool:
        """Whether a message has waited for more than a day."""
        return (self.oldest_seconds or 0) > DAY_S


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """What waits for one device."""

    recipient: DeviceName
    label: str
    queued: Count
    acknowledged: Count
    oldest_seconds: Age | None
    kept_by: Annotated[
        tuple[DeviceName, ...],
        Says(description="mailboxes that report to store the waiting messages, or the first of them"),
    ] = ()


@dataclass(frozen=True, slots=True)
class MemberCost:
    """What the link of another device has cost, as that device reports, all headers included."""

    reported_seconds: Annotated[Age, Says(description="seconds since it reported this")]
    today_bytes: Annotated[Count | None, Says(description="of today (UTC); null: it reported on another day")]
    month_bytes: Annotated[Count, Says(description="of this month (UTC)")]
    forecast_bytes: Annotated[Count | None, Says(description="of the month if it continues as so far; null: unknown")]
    budget_bytes: Annotated[Count | None, Says(description="its budget; null: none")] = None
    period: Annotated[str, Says(description="day or month, of the budget; empty: none")] = ""
    outlook: Annotated[
        str | None,
        Says(
            enum=[*(each.value for each in Outlook), None],
            description="whether the budget lasts: low: less than a tenth is left; early: the forecast exceeds it; "
            "null: no budget, or unknown",
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class MemberStatus:
    """Another device of our groups, and when it was heard."""

    device: DeviceName
    label: str
    last_seen_seconds: Annotated[
        Age | None, Says(description="seconds since its last new message, to the minute; null: never")
    ]
    presence: Annotated[
        str,
        Says(
            enum=[*CONDITIONS],
            description="asleep: until its next window; silent: longer than it announced; gone: by its last will; "
            "stopped: on purpose",
        ),
    ]
    presence_seconds: Annotated[Age | None, Says(description="seconds in this state")]
    next_seconds: Annotated[
        Age | None, Says(description="seconds until a device that is asleep connects again; null: it does not say")
    ] = None
    cost: Annotated[MemberCost | None, Says(description="of its link; null: it has reported none this month")] = None


@dataclass(frozen=True, slots=True)
class OtherHeads:
    """A member that was last seen with other manifests of a group than this device."""

    device: DeviceName
    label: str
    seconds: Annotated[Age, Says(description="seconds of difference, at most")]


@dataclass(frozen=True, slots=True)
class AgreementStatus:
    """Which other members, boards apart, were last seen with the same manifests of a group as this device."""

    same: Count
    others: tuple[OtherHeads, ...]
    never: Annotated[tuple[DeviceName, ...], Says(description="members that have not reported yet")]


@dataclass(frozen=True, slots=True)
class CatchUpStatus:
    """A member that delivers missing history of a group."""

    device: DeviceName
    label: str
    taken: Annotated[Count, Says(description="operations received from it since the start")]
    waiting: Annotated[Count, Says(description="operations of its last answer that wait for earlier ones")]
    more: Annotated[Count, Says(description="further operations that it reports to have, about")]
    seconds: Annotated[Age, Says(description="seconds since its last answer")]


@dataclass(frozen=True, slots=True)
class HistoryStatus:
    """How much of a group's history is here, which members have the same, and which ones deliver the rest."""

    operations: Count
    same: Count
    others: tuple[OtherHeads, ...]
    never: Annotated[tuple[DeviceName, ...], Says(description="members that have not reported yet")]
    fetching: tuple[CatchUpStatus, ...]
    deleted: Annotated[Count, Says(description="of these, operations whose content was deleted under a checkpoint")] = 0


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """A group that this device is in."""

    group_id: GroupIdText
    version: Count
    members: Count
    agreement: AgreementStatus
    history: HistoryStatus
    epoch: int = here_only(0)
    mode: int = here_only(0)
    too_large: str = here_only("")
    """What its manifests need and no relay takes, in words; empty where they fit."""


@dataclass(frozen=True, slots=True)
class SalvageStatus:
    """The last time that the state was saved from a damaged file; lost: rows of each table, null: nobody knows."""

    seconds: Count
    lost: dict[str, int | None]
    file: str


@dataclass(frozen=True, slots=True)
class ObeyedOperator:
    """A device whose orders this one obeys; `member`: in a group that both are in, without which it can give none."""

    device: DeviceName
    label: str
    member: bool


@dataclass(frozen=True, slots=True)
class OperatorsStatus:
    """Who may order this device, and how many of them have to agree."""

    threshold: Annotated[int, Says(minimum=1)]
    obeyed: tuple[ObeyedOperator, ...]


@dataclass(frozen=True, slots=True)
class WrittenStatus:
    """What the agent wrote to this machine's storage, at most in the last 7 days that it ran, as Linux counts it: in
    pages of 4 KiB, without the file system's journal and what a card rewrites by itself."""

    bytes: Count
    seconds: Annotated[Count, Says(description="running time in which they were written")]
    bytes_per_day: Annotated[Count | None, Says(description="average; null: counted for less than a day")]
    database_bytes: Annotated[
        Count, Says(description="of these, what the loop wrote to the state database: outbox, inbox, history, counters")
    ]


@dataclass(frozen=True, slots=True)
class LinkStatus:
    """When this device connects to its relays, and what that costs, all headers included."""

    connect: Annotated[str, Says(description="`link.connect`, or the windows that the budget pays for")]
    next_seconds: Annotated[Age | None, Says(description="seconds until the next window; null: none is awaited")]
    today: Annotated[dict[str, Count], Says(description="bytes of today (UTC) by kind, both directions")]
    month: Annotated[dict[str, Count], Says(description="bytes of this month (UTC) by kind")]
    forecast_bytes: Annotated[
        Count | None, Says(description="cost of the month if it continues as so far; null: counted for less than 6 h")
    ]
    budget: Annotated[str, Says(description="`link.budget`; empty: none")] = ""
    left_bytes: Annotated[
        Count | None, Says(description="what is left of this day's or month's budget; null: no budget")
    ] = None


_ALWAYS = LinkStatus("always", None, {}, {}, None)


@dataclass(frozen=True, slots=True)
class Status:
    """How the device is."""

    GROWS: ClassVar[bool] = True

    device: DeviceName
    label: str
    agent: Literal["running", "not running"]
    relay: RelayStatus
    relays: Annotated[tuple[RelayStatus, ...], Says(description="all configured relays, the preferred one first")]
    clock_synchronised: bool
    outbox: OutboxStatus
    queues: tuple[QueueStatus, ...]
    members: tuple[MemberStatus, ...]
    groups: tuple[GroupStatus, ...]
    boards: tuple[BoardStatus, ...]
    sensors: Annotated[tuple[SensorStatus, ...], Says(description="configured sensors")]
    operators: OperatorsStatus
    salvage: SalvageStatus | None
    pending_joins: Annotated[Count, Says(description="groups that this device requested to join")]
    waiting_invitations: Annotated[
        Count,
        Says(description="invitations to further groups that wait for an answer; `covey request` lists them"),
    ]
    noise_key_seconds: Annotated[
        Count | None, Says(description="age of this device's noise key; null before an agent has run")
    ]
    landing_bytes: Count
    counters: dict[str, Count]
    troubles: Annotated[tuple[str, ...], Says(description="problems, one short line each")]
    mailbox: Annotated[MailboxStatus | None, Says(description="envelopes stored as a mailbox; null: not a mailbox")] = (
        None
    )
    content: Annotated[
        ContentStatus | None, Says(description="files of its groups; null: none stored or requested")
    ] = None
    link: Annotated[LinkStatus, Says(description="when this device connects to its relays")] = _ALWAYS
    written: Annotated[
        WrittenStatus | None, Says(description="bytes written to storage; null: not counted yet, or not by this kernel")
    ] = None
    alarms: Annotated[tuple[str, ...], Says(description="names of this device's series in alarm")] = ()

    @property
    def running(self) -> bool:
        """Whether an agent runs on this state."""
        return self.agent == "running"
