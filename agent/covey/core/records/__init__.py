"""The core's reads and writes of a device's durable state: one interface, divided by families of tables.

Every call happens inside a transaction that the caller opened and commits before it releases anything. The core decides
what to write, and does not know where: `adapters/sqlite/store.py` implements this, and the simulation's store extends
it. Nothing here runs. The names appear only in annotations, so machines import them under `TYPE_CHECKING`, and an agent
never loads them. The rows are dataclasses next to the machines that use them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from covey.core.records.content import ContentRecords, MailboxRecords
from covey.core.records.groups import (
    AheadRecords,
    DepartureRecords,
    EventRecords,
    GroupAskRecords,
    GroupRecords,
    HeadsRecords,
    InvitedOperatorRecords,
    InviteRecords,
    JoinRecords,
    PairingRecords,
    PersonalRecords,
    RequestRecords,
    VoteRecords,
)
from covey.core.records.history import AnnouncementRecords, CatchUpRecords, OperationRecords
from covey.core.records.link import (
    CarrierRecords,
    CounterRecords,
    ImprintRecords,
    InboxRecords,
    IncarnationRecords,
    LandingRecords,
    LinkKeyRecords,
    LossRecords,
    OutboxRecords,
    PresenceRecords,
    QuarantineRecords,
    ReceivedRecords,
)
from covey.core.records.orders import (
    CommandRecords,
    GroupMoveRecords,
    InstallationRecords,
    OrderedSettingRecords,
    ResultRecords,
    SentReportRecords,
    SettingReportRecords,
)


class Records(Protocol):
    """The durable state of one device: one object for each family of tables."""

    def after_commit(self, change: Callable[[], None]) -> None:
        """Make a change of memory once the open transaction is committed; never where it is rolled back."""

    @property
    def counters(self) -> CounterRecords: ...

    @property
    def outbox(self) -> OutboxRecords: ...

    @property
    def losses(self) -> LossRecords: ...

    @property
    def incarnations(self) -> IncarnationRecords: ...

    @property
    def received(self) -> ReceivedRecords: ...

    @property
    def imprints(self) -> ImprintRecords: ...

    @property
    def landing(self) -> LandingRecords: ...

    @property
    def inbox(self) -> InboxRecords: ...

    @property
    def quarantine(self) -> QuarantineRecords: ...

    @property
    def link_keys(self) -> LinkKeyRecords: ...

    @property
    def presence(self) -> PresenceRecords: ...

    @property
    def heads(self) -> HeadsRecords: ...

    @property
    def carriers(self) -> CarrierRecords: ...

    @property
    def events(self) -> EventRecords: ...

    @property
    def groups(self) -> GroupRecords: ...

    @property
    def votes(self) -> VoteRecords: ...

    @property
    def ahead(self) -> AheadRecords: ...

    @property
    def departures(self) -> DepartureRecords: ...

    @property
    def invites(self) -> InviteRecords: ...

    @property
    def joins(self) -> JoinRecords: ...

    @property
    def requests(self) -> RequestRecords: ...

    @property
    def group_asks(self) -> GroupAskRecords: ...

    @property
    def invited_operators(self) -> InvitedOperatorRecords: ...

    @property
    def personal(self) -> PersonalRecords: ...

    @property
    def operations(self) -> OperationRecords: ...

    @property
    def announcements(self) -> AnnouncementRecords: ...

    @property
    def catching_up(self) -> CatchUpRecords: ...

    @property
    def sent_reports(self) -> SentReportRecords: ...

    @property
    def setting_reports(self) -> SettingReportRecords: ...

    @property
    def order_results(self) -> ResultRecords: ...

    @property
    def commands(self) -> CommandRecords: ...

    @property
    def installations(self) -> InstallationRecords: ...

    @property
    def group_moves(self) -> GroupMoveRecords: ...

    @property
    def ordered_settings(self) -> OrderedSettingRecords: ...

    @property
    def content(self) -> ContentRecords: ...

    @property
    def mailbox(self) -> MailboxRecords: ...

    @property
    def pairings(self) -> PairingRecords: ...
