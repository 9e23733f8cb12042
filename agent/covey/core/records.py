"""What a node is given of the durable state: one object for each family of tables, no wider than its users.

Every call happens inside a transaction that the runtime opened and will commit before it releases anything. The core
decides what to write; it never knows where. `adapters/sqlite/store.py` holds these objects. Each machine names the
families that it needs beside itself (`link/records.py`, `membership/records.py`); here they come together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from covey.core.actions.received import ResultRecords
from covey.core.collectors import CollectorQueues, SilentCollectorRecords
from covey.core.content.records import ContentRecords
from covey.core.history.records import (
    AnnouncementRecords,
    CatchUpRecords,
    GraphOfferRecords,
    NamedManifestRecords,
    OperationRecords,
)
from covey.core.ids import DeviceKey, GroupId, OperationId
from covey.core.link.imprints import ImprintRecords
from covey.core.link.incarnations import IncarnationSpan
from covey.core.link.link_keys import LinkKeyRecords
from covey.core.link.records import (
    CounterRecords,
    IncarnationRecords,
    LandingRecords,
    LossRecords,
    OutboxRecords,
    ReceivedRecords,
    SeenRecords,
)
from covey.core.membership.events import EventRecords
from covey.core.membership.heads import PeerHeadsRecords
from covey.core.membership.records import (
    AheadRecords,
    ControlRecords,
    DepartureRecords,
    GatheringRecords,
    GroupRecords,
    JoinRecords,
    RequestRecords,
    VoteRecords,
)
from covey.core.orders.nodes import OrderRecords
from covey.core.orders.reports import SentReportRecords
from covey.core.presence.heartbeat import PresenceRecords
from covey.core.routing.forwarding import RouteRecords
from covey.core.settings.reporting import SettingReportRecords
from covey.core.wire.message import Message
from covey.core.wire.sequences import Range, SequenceSet

if TYPE_CHECKING:
    from covey.core.mailbox.records import MailboxRecords


class NodeOutbox(OutboxRecords, CollectorQueues, ControlRecords, Protocol):
    """The queues, as all who use them need them together."""

    def let_go(self, recipient: DeviceKey, span: IncarnationSpan, received: SequenceSet) -> list[Range]:
        """Return the link sequences of a span that its recipient lacks and the outbox does not hold."""


class NodeGroups(GroupRecords, NamedManifestRecords, Protocol):
    """Manifests and secrets."""


class NodeOperations(OperationRecords, OrderRecords, Protocol):
    """What groups say, and what of it bears on orders."""

    def frontier(self, group_id: GroupId, operation_id: OperationId) -> tuple[int, ...]:
        """Return the arrivals of the last of what bears on orders that an operation follows, or is."""


class NodePresence(SeenRecords, PresenceRecords, Protocol):
    """When other devices were last seen, and what they reported."""

    def last_seen(self) -> dict[DeviceKey, int]:
        """Return when each device was last seen."""


class NodeSentReports(SentReportRecords, Protocol):
    """What was reported of orders, and to whom."""

    def note_lacking(self, recipient: DeviceKey, first: int, last: int) -> None:
        """Note that a recipient lacks what was sent at some places of its queue, both included."""


class InboxRecords(Protocol):
    """Blobs for the application."""

    def deliver(self, message: Message, now_us: int) -> bool:
        """Put a message into the application's inbox; False where the inbox is full."""


class QuarantineRecords(Protocol):
    """Messages that were set aside."""

    def add(self, code: str, message: bytes, now_us: int, recipient: DeviceKey | None = None) -> None:
        """Keep an authentic message that could not be used, or sent to a recipient, for a person to look at."""


class Records(Protocol):
    """The durable state of one device, by families."""

    def after_commit(self, change: Callable[[], None]) -> None:
        """Make a change of memory once the open transaction is committed; never where it is rolled back."""

    @property
    def counters(self) -> CounterRecords:
        """Counters that `covey status` shows."""

    @property
    def outbox(self) -> NodeOutbox:
        """Messages that wait for their recipients."""

    @property
    def losses(self) -> LossRecords:
        """What is gone of queues and not reported yet."""

    @property
    def incarnations(self) -> IncarnationRecords:
        """The incarnations of this device."""

    @property
    def received(self) -> ReceivedRecords:
        """What has come over each link."""

    @property
    def imprints(self) -> ImprintRecords:
        """By which messages the newest numbers of each link have come."""

    @property
    def landing(self) -> LandingRecords:
        """Messages on their way into the vault."""

    @property
    def inbox(self) -> InboxRecords:
        """Blobs for the application."""

    @property
    def quarantine(self) -> QuarantineRecords:
        """Messages that were set aside."""

    @property
    def link_keys(self) -> LinkKeyRecords:
        """Link keys that others have given to this device."""

    @property
    def presence(self) -> NodePresence:
        """When other devices were last seen, and what they reported."""

    @property
    def heads(self) -> PeerHeadsRecords:
        """What each device has last said of the groups that it shares with this one."""

    @property
    def collectors(self) -> SilentCollectorRecords:
        """Collectors that do not answer."""

    @property
    def carriers(self) -> RouteRecords:
        """Which gateway carries for which board."""

    @property
    def events(self) -> EventRecords:
        """What happened, for those who ask later."""

    @property
    def groups(self) -> NodeGroups:
        """Manifests and secrets."""

    @property
    def operations(self) -> NodeOperations:
        """The operations of this device's groups."""

    @property
    def announcements(self) -> AnnouncementRecords:
        """How much of this device's own operations each member has been sent."""

    @property
    def catching_up(self) -> CatchUpRecords:
        """The members from whom histories are being fetched."""

    @property
    def graph_offers(self) -> GraphOfferRecords:
        """Since when each group's graph has been offered."""

    @property
    def sent_reports(self) -> NodeSentReports:
        """What was reported of orders, and to whom."""

    @property
    def setting_reports(self) -> SettingReportRecords:
        """What members reported of settings."""

    @property
    def order_results(self) -> ResultRecords:
        """What members reported of commands."""

    @property
    def content(self) -> ContentRecords:
        """Sealed files."""

    @property
    def mailbox(self) -> MailboxRecords:
        """What mailboxes keep, and who uses them; nothing of it is loaded before it is wanted."""

    @property
    def votes(self) -> VoteRecords:
        """Votes that have not decided anything yet."""

    @property
    def ahead(self) -> AheadRecords:
        """Messages of groups that rest on a manifest that has not come yet."""

    @property
    def departures(self) -> DepartureRecords:
        """Removed devices that have not acknowledged their departure notice."""

    @property
    def invites(self) -> GatheringRecords:
        """This device's invites."""

    @property
    def joins(self) -> JoinRecords:
        """Groups that this device has asked to join."""

    @property
    def requests(self) -> RequestRecords:
        """Invitations to further groups."""
