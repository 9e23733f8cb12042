"""What a device says of itself to programs, as types: the JSON of `--json` and of the local API, field by field.

`app/queries.py` computes them, `app/openapi.py` describes them to other languages. What stands beside a type in
`Annotated` is JSON Schema. A key that is a word of Python has an underscore at its end here. A field made by `_here`
is for those who draw the status on the device itself; JSON does not have it.
"""

from __future__ import annotations

from dataclasses import Field, dataclass, field, fields, is_dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from covey.core.presence.status import CONDITIONS
from covey.errors import AgentVersionError


class Says:
    """JSON Schema beside a type. Two are never the same, so that types with them can be joined."""

    def __init__(self, **words: Any) -> None:
        self.words = words


Count = Annotated[int, Says(minimum=0)]
Age = Annotated[int, Says(minimum=0, description="seconds")]
DeviceName = Annotated[
    str, Says(pattern="^[0-9a-f]{8}$", description="a device's name: the beginning of its signing key")
]
GroupIdText = Annotated[str, Says(pattern="^[0-9a-f]{64}$")]

DAY_S = 86_400


def _here(default: Any) -> Any:
    return field(default=default, metadata={"here": True})


def document_fields(kind: Any) -> list[Field[Any]]:
    """Return the fields that JSON has."""
    return [each for each in fields(kind) if "here" not in each.metadata]


@dataclass(frozen=True, slots=True)
class RelayStatus:
    """One relay, and how it is with it."""

    url: str
    state: Annotated[str, Says(description="`up`, or why not")]
    seconds: Annotated[Count, Says(description="since when")]
    noted: str = _here("")
    """What the last agent has noted, whether or not one runs; empty where none ever has."""

    @property
    def up(self) -> bool:
        """Whether the relay accepts the agent."""
        return self.state == "up"


@dataclass(frozen=True, slots=True)
class BytesByClass:
    """Bytes of the messages that wait, by their class."""

    control: Count
    data: Count
    telemetry: Count
    history: Count


@dataclass(frozen=True, slots=True)
class OutboxStatus:
    """How full the outbox is."""

    messages: Count
    bytes: Count
    maximum_bytes: Count
    bytes_by_class: BytesByClass
    oldest_seconds: Age | None
    oldest_us: int | None = _here(None)

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
        tuple[DeviceName, ...], Says(description="mailboxes that say they keep what waits, or the first part of it")
    ] = ()


@dataclass(frozen=True, slots=True)
class MemberStatus:
    """Another device of our groups, and when it was heard."""

    device: DeviceName
    label: str
    heard_seconds: Annotated[
        Age | None, Says(description="seconds since something new came from it, to a minute; null: never")
    ]
    presence: Annotated[
        str,
        Says(
            enum=[*CONDITIONS],
            description="what it tells of itself: silent for longer than it said that it would be, "
            "gone by its last will, stopped on purpose",
        ),
    ]
    presence_seconds: Annotated[Age | None, Says(description="since when")]


@dataclass(frozen=True, slots=True)
class OtherHeads:
    """A member that was last seen with other manifests of a group than this device."""

    device: DeviceName
    label: str
    seconds: Annotated[Age, Says(description="since when, at most")]


@dataclass(frozen=True, slots=True)
class AgreementStatus:
    """Which other members, boards apart, were last seen with the same manifests of a group as this device."""

    same: Count
    others: tuple[OtherHeads, ...]
    never: Annotated[tuple[DeviceName, ...], Says(description="members that have not said anything of it yet")]


@dataclass(frozen=True, slots=True)
class CatchUpStatus:
    """A member from whom a group's history is being fetched."""

    device: DeviceName
    label: str
    taken: Annotated[Count, Says(description="operations that it has brought since this began")]
    waiting: Annotated[Count, Says(description="operations of its last answer that rest on what is not here")]
    more: Annotated[Count, Says(description="operations that it has beyond these, by its own word and about")]
    seconds: Annotated[Age, Says(description="since its last answer")]


@dataclass(frozen=True, slots=True)
class HistoryStatus:
    """How much of a group's history is here, who was last heard with the same, and from whom it is being fetched."""

    operations: Count
    same: Count
    others: tuple[OtherHeads, ...]
    never: Annotated[tuple[DeviceName, ...], Says(description="members that have not said anything of it yet")]
    fetching: tuple[CatchUpStatus, ...]
    forgotten: Annotated[Count, Says(description="operations, among those, that a checkpoint covers and that went")] = 0


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """A group that this device is in."""

    group_id: GroupIdText
    version: Count
    members: Count
    agreement: AgreementStatus
    history: HistoryStatus
    epoch: int = _here(0)
    mode: int = _here(0)
    too_large: str = _here("")
    """What its manifests need and no relay takes, in words; empty where they fit."""


@dataclass(frozen=True, slots=True)
class BoardStatus:
    """A board on one of this machine's ports."""

    port: str
    device: Annotated[
        str, Says(pattern="^([0-9a-f]{8})?$", description="its name, as of any device; empty: it cannot say who it is")
    ]
    label: str
    software: str
    enrolled: bool
    up: bool
    seconds: Age | None
    trouble: Annotated[str, Says(description="what went wrong on it last, since it started; empty: nothing")]


@dataclass(frozen=True, slots=True)
class SensorStatus:
    """A sensor that the configuration names, as the agent last knew it."""

    name: str
    state: Annotated[str, Says(description="`up`, `starting`, or why it does not measure, or not all")]
    seconds: Annotated[Count, Says(description="since when")]

    @property
    def up(self) -> bool:
        """Whether it measures, and all that it should."""
        return self.state == "up"

    @property
    def failing(self) -> bool:
        """Whether something is to be mended."""
        return self.state not in {"up", "starting"}


@dataclass(frozen=True, slots=True)
class InboxStatus:
    """What a mailbox keeps for one device."""

    device: DeviceName
    label: str
    blobs: Annotated[Count, Says(description="sealed envelopes")]
    bytes: Count
    max_cursor: Annotated[Count, Says(description="the last cursor that was given")]
    oldest_seconds: Age | None


@dataclass(frozen=True, slots=True)
class MailboxStatus:
    """What this device keeps for others as a mailbox of some of its groups."""

    groups: Count
    blobs: Count
    bytes: Count
    maximum_bytes: Count
    hooks: Annotated[Count, Says(description="ways in which devices want to be woken")]
    inboxes: tuple[InboxStatus, ...]


@dataclass(frozen=True, slots=True)
class ContentStatus:
    """The files of this device's groups as they are here."""

    here: Annotated[Count, Says(description="files that are here whole")]
    here_bytes: Annotated[Count, Says(description="their sealed bytes")]
    pinned_bytes: Annotated[Count, Says(description="of these, what stays when room is short")]
    maximum_bytes: Annotated[Count, Says(description="what all files may take: content.maximum_mb")]
    wanted: Annotated[Count, Says(description="files that are asked for and not here yet")]
    wrong: Annotated[Count, Says(description="files that came whole and not as they were offered, and were deleted")]
    peers: Annotated[Count | None, Says(description="peers on this network; null: not looked for, or not known")]


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
class Status:
    """How the device is. Later versions may say more."""

    device: DeviceName
    label: str
    agent: Literal["running", "not running"]
    relay: RelayStatus
    relays: Annotated[tuple[RelayStatus, ...], Says(description="every one that is set, the preferred one first")]
    clock_synchronised: bool
    outbox: OutboxStatus
    queues: tuple[QueueStatus, ...]
    members: tuple[MemberStatus, ...]
    groups: tuple[GroupStatus, ...]
    boards: tuple[BoardStatus, ...]
    sensors: Annotated[tuple[SensorStatus, ...], Says(description="those that the configuration names")]
    operators: OperatorsStatus
    salvage: SalvageStatus | None
    pending_joins: Annotated[Count, Says(description="groups that this device has asked to join")]
    waiting_invitations: Annotated[
        Count,
        Says(
            description="invitations to further groups that a person here has not answered; `covey requests` lists them"
        ),
    ]
    noise_key_seconds: Annotated[
        Count | None, Says(description="age of this device's noise key; null before an agent has run")
    ]
    landing_bytes: Count
    counters: dict[str, Count]
    troubles: Annotated[tuple[str, ...], Says(description="what is not well, one short line each")]
    mailbox: Annotated[
        MailboxStatus | None, Says(description="what this device keeps as a mailbox; null: it is none")
    ] = None
    content: Annotated[
        ContentStatus | None, Says(description="the files of its groups; null: none are here, or asked for")
    ] = None

    @property
    def running(self) -> bool:
        """Whether an agent runs on this state."""
        return self.agent == "running"


@dataclass(frozen=True, slots=True)
class WaitingMessage:
    """A message that waits for its recipient's acknowledgement."""

    recipient: DeviceName
    label: Annotated[str, Says(description="what the recipient is called; empty where no group has it any more")]
    place: Annotated[int, Says(minimum=1, description="its place in that queue")]
    class_: Literal["control", "data", "telemetry", "history"]
    bytes: Count
    seconds: Annotated[Count, Says(description="since it was queued")]


@dataclass(frozen=True, slots=True)
class Outbox:
    """What waits: how much in all, and the oldest messages of each recipient."""

    messages: Count
    bytes: Count
    shown: tuple[WaitingMessage, ...]


@dataclass(frozen=True, slots=True)
class ArrivedBlob:
    """A blob that has arrived."""

    id: Count
    author: Annotated[str, Says(pattern="^[0-9a-f]{64}$", description="signing key")]
    name: DeviceName
    group_id: GroupIdText
    sent_at_us: Annotated[int, Says(description="Unix microseconds, as the author's clock said")]
    received_at_us: Annotated[int, Says(description="Unix microseconds")]
    body: Annotated[str, Says(contentEncoding="base64")]


Scalar = str | bool | int
SettingStateText = Literal["handed_over", "applied", "refused", "restarting", "tried", "reverted"]


@dataclass(frozen=True, slots=True)
class OrderedSettingDocument:
    """A setting that an operator gave this device, and what has become of it."""

    key: str
    value: Annotated[Scalar | None, Says(description="what operators want to hold; null: the device's own value")]
    secret: Annotated[bool, Says(description="the value is never shown: only `/v1/settings` has it, for programs")]
    state: SettingStateText
    code: Annotated[str, Says(description="what stood against it, for programs; empty: nothing")]
    why: Annotated[str, Says(description="the same for people")]
    by: DeviceName
    operation: Annotated[str, Says(pattern="^[0-9a-f]{64}$", description="which asks for it, in the group's history")]
    group_id: GroupIdText
    own: Annotated[Scalar | None, Says(description="what the program whose setting it is has said that it has")]


@dataclass(frozen=True, slots=True)
class ReportedSettingDocument:
    """A program's report is kept, and goes to the operators."""

    reported: Annotated[bool, Says(description="false: another operation asks for the setting by now")]


@dataclass(frozen=True, slots=True)
class SentEphemeral:
    """How many bytes were said, to how many members; who of them is there is not known."""

    bytes: Count
    recipients: Count


@dataclass(frozen=True, slots=True)
class QueuedBlob:
    """A blob is queued, for so many devices."""

    bytes: Count
    recipients: Count


@dataclass(frozen=True, slots=True)
class HandedOver:
    """What had waited for these is kept by a mailbox, or by themselves; for those that are open nobody has said so."""

    handed_over: tuple[DeviceName, ...]
    open: tuple[DeviceName, ...]


@dataclass(frozen=True, slots=True)
class QueuedReadings:
    """So many readings are queued."""

    queued_readings: Count


@dataclass(frozen=True, slots=True)
class Forgotten:
    """It is not there any more."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request was refused."""

    error: Annotated[str, Says(description="a stable code")]
    message: str
    hint: Annotated[str, Says(description="what to do, perhaps empty")]


Document = TypeVar("Document")

_IN_JSON: dict[Any, type] = {tuple: list, Literal: str}
"""Types that JSON has another one for."""


def to_json(value: Any) -> Any:
    """Return a document as JSON values."""
    if is_dataclass(value):
        return {each.name.rstrip("_"): to_json(getattr(value, each.name)) for each in document_fields(value)}
    if isinstance(value, tuple):
        return [to_json(each) for each in value]
    if isinstance(value, dict):
        return {key: to_json(each) for key, each in value.items()}
    return value


def from_json(kind: type[Document], value: Any) -> Document:
    """Return JSON values of an agent as a document; what only a later version says is left out.

    Raises:
        AgentVersionError: an earlier version does not say it, or a later one says it in another way.
    """
    found: Document = _read(kind, value, "a document")
    return found


def _read(kind: Any, value: Any, name: str) -> Any:
    if get_origin(kind) is Annotated:
        return _read(get_args(kind)[0], value, name)
    if get_origin(kind) in {Union, UnionType}:
        (inner,) = (each for each in get_args(kind) if each is not NoneType)
        return None if value is None else _read(inner, value, name)
    form = get_origin(kind) or kind
    in_json: Any = _IN_JSON.get(form, dict if is_dataclass(form) else form)
    if not isinstance(value, in_json):
        raise AgentVersionError.lacking(name)
    if form is tuple:
        return tuple(_read(get_args(kind)[0], each, name) for each in value)
    if form is dict:
        return {key: _read(get_args(kind)[1], each, f"{name}.{key}") for key, each in value.items()}
    if is_dataclass(form):
        hints = get_type_hints(kind, include_extras=True)
        keys = {each.name: each.name.rstrip("_") for each in document_fields(kind)}
        if lacking := keys.values() - value.keys():
            raise AgentVersionError.lacking(min(lacking))
        return kind(**{field: _read(hints[field], value[key], key) for field, key in keys.items()})
    return value
