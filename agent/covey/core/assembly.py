"""Create a node's machines and give each its collaborators: subject by subject, each from those above it.

    groups      this device's groups, their members, and changes
    links       how envelopes are sealed, queued, sent and deduplicated
    histories   operations of groups, and comparing them with others
    reports     results of orders, here and elsewhere
    receiving   what happens to each envelope that arrives

Each function takes what its machines need and returns them; nothing is looked up later. `node.py` calls the functions
in this order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from covey.core.actions.probing import Probes
from covey.core.actions.received import ReceivedResults
from covey.core.actions.reporting import ResultReporting
from covey.core.checkpoints.newcomers import Newcomers
from covey.core.content.exchange import ContentExchange
from covey.core.crypto import Identity
from covey.core.ephemeral.messages import EphemeralMessages
from covey.core.events import Event
from covey.core.history.exchange import HistoryExchange
from covey.core.history.heads import HeadsExchange
from covey.core.history.history import History
from covey.core.ids import DeviceKey, GroupId, NoisePublic
from covey.core.link.imprints import Imprints
from covey.core.link.receiver import ReceiveLinks
from covey.core.link.sealer import Sealer
from covey.core.link.send_queue import SendQueue
from covey.core.link.send_window import Jitter
from covey.core.link.sender import Sender
from covey.core.link.state import LinkState
from covey.core.mailbox.mailboxes import Mailboxes
from covey.core.membership.actions import GroupActions
from covey.core.membership.asking_back import AskingBack
from covey.core.membership.expiry import LeftGroups
from covey.core.membership.groups import Groups
from covey.core.membership.joining import Joining
from covey.core.membership.maintenance import GroupMaintenance
from covey.core.membership.membership import Membership
from covey.core.membership.past import Past
from covey.core.orders.authority import Pins
from covey.core.orders.reports import Reports
from covey.core.presence.heartbeat import Heartbeat
from covey.core.receiving.acknowledgements import Acknowledgements
from covey.core.receiving.export import HistoryImport
from covey.core.receiving.handlers import GroupMessages, HistoryMessages, OrderMessages, PeerMessages
from covey.core.receiving.landing import TelemetryLanding
from covey.core.receiving.outcome import Drops, Handler
from covey.core.receiving.receiver import Receiver
from covey.core.receiving.sequenced import SequencedMessages
from covey.core.receiving.unsequenced import UnsequencedMessages
from covey.core.routing.forwarding import BoardRoutes
from covey.core.routing.routes import Routing, address
from covey.core.settings.reporting import SettingReporting
from covey.core.wire.message import MessageType

if TYPE_CHECKING:
    from covey.core.records import Records


@dataclass(frozen=True, slots=True)
class Given:
    """What a node is made from: who it is, its durable state, chance, and what outlives a failed transaction."""

    identity: Identity
    records: Records
    rng: Callable[[int], bytes]
    jitter: Jitter
    state: LinkState

    @property
    def own(self) -> DeviceKey:
        """The device's own key."""
        return self.identity.signing_public


@dataclass(frozen=True, slots=True)
class GroupMachines:
    """Which groups there are, who is in them, and how that changes."""

    groups: Groups
    membership: Membership
    joining: Joining
    maintenance: GroupMaintenance
    past: Past
    asking_back: AskingBack
    left: LeftGroups


def group_machines(given: Given) -> GroupMachines:
    """Return the machines of groups."""
    identity, records, carriage = given.identity, given.records, given.state.carriage
    groups = Groups(identity, records)
    membership = Membership(identity, groups, records, given.rng, carriage)
    return GroupMachines(
        groups,
        membership,
        Joining(identity, membership, records.invites),
        GroupMaintenance(identity, records, given.jitter, carriage),
        Past(records.groups),
        AskingBack(given.own, groups, records.groups, carriage),
        LeftGroups(groups),
    )


@dataclass(frozen=True, slots=True)
class LinkMachines:
    """How envelopes are sealed, queued, sent and told apart, and which way they go."""

    sealer: Sealer
    queue: SendQueue
    sender: Sender
    receiving: ReceiveLinks
    imprints: Imprints
    routes: BoardRoutes
    routing: Routing


def link_machines(given: Given, groups: Groups) -> LinkMachines:
    """Return the machines of links, which know from groups where devices are spoken to."""
    identity, records, state = given.identity, given.records, given.state
    windows, link_keys, after_commit = state.windows, state.link_keys, records.after_commit

    def address_of(device: DeviceKey) -> NoisePublic | None:
        return address(groups, records.carriers, device)

    routes = BoardRoutes(records.carriers)
    sealer = Sealer(identity, records.incarnations, address_of, given.rng, link_keys, state.heads.named)
    queue = SendQueue(identity, records, address_of, windows, link_keys, after_commit)
    return LinkMachines(
        sealer,
        queue,
        Sender(records, queue, sealer, windows, link_keys, after_commit),
        ReceiveLinks(records, state.report, after_commit),
        Imprints(records.imprints, records.received),
        routes,
        Routing(given.own, records.carriers, sealer, windows, routes),
    )


@dataclass(frozen=True, slots=True)
class HistoryMachines:
    """What groups say, what this device does in them, and how both are compared with others."""

    history: History
    newcomers: Newcomers
    actions: GroupActions
    heads: HeadsExchange
    importing: HistoryImport


def history_machines(
    given: Given, of_groups: GroupMachines, links: LinkMachines, pins: Callable[[GroupId], Pins]
) -> HistoryMachines:
    """Return the machines of histories. `pins` returns a group's operators that this device's owner has pinned."""
    identity, records, state = given.identity, given.records, given.state
    groups, membership, past, queue = of_groups.groups, of_groups.membership, of_groups.past, links.queue
    exchange = HistoryExchange(given.own, groups, past, records, queue, state.carriage)
    history = History(identity, groups, records, exchange, lambda group_id: pins(group_id).operators)
    actions = GroupActions(identity, membership, of_groups.joining, history, of_groups.past, records, queue)
    heads = HeadsExchange(
        identity, groups, history, exchange.asking, records, given.jitter, state.heads, state.carriage
    )
    importing = HistoryImport(membership, past, history, actions, records.counters)
    return HistoryMachines(history, Newcomers(groups, history, records, pins), actions, heads, importing)


@dataclass(frozen=True, slots=True)
class ReportMachines:
    """Results of orders: `results` and `settings` report to others, `received` stores others' reports."""

    settings: SettingReporting
    received: ReceivedResults
    results: ResultReporting
    probes: Probes


def report_machines(given: Given, groups: Groups, queue: SendQueue) -> ReportMachines:
    """Return the machines of reports."""
    records = given.records
    reports, received = Reports(records.sent_reports, queue), ReceivedResults(groups, records)
    return ReportMachines(
        SettingReporting(records.setting_reports, reports),
        received,
        ResultReporting(given.own, reports, received, records.outbox),
        Probes(given.own, queue, records),
    )


@dataclass(frozen=True, slots=True)
class ReceivingMachines:
    """What is done with each envelope that comes; `group_messages` takes up what waited for another manifest, too."""

    receiver: Receiver
    group_messages: GroupMessages


def receiving_machines(
    given: Given,
    events: deque[Event],
    of_groups: GroupMachines,
    links: LinkMachines,
    histories: HistoryMachines,
    reports: ReportMachines,
    *,
    acknowledgements: Acknowledgements,
    landing: TelemetryLanding,
    heartbeat: Heartbeat,
    ephemeral: EphemeralMessages,
    content: ContentExchange,
    mailboxes: Mailboxes,
) -> ReceivingMachines:
    """Return what opens envelopes, with a handler for each kind of message. What happens goes into `events`."""
    records, state = given.records, given.state
    groups, membership, queue = of_groups.groups, of_groups.membership, links.queue
    drops = Drops(records.counters, events)
    group_messages = GroupMessages(
        *(given.own, membership, of_groups.joining, of_groups.maintenance, of_groups.past, of_groups.asking_back),
        *(records, queue, histories.heads, histories.actions.decide),
    )
    handlers = {
        **group_messages.handlers(),
        **_history_handlers(given, of_groups, histories),
        **_order_handlers(reports, landing),
        **landing.handlers(),
        **PeerMessages(records, content, given.rng).handlers(),
    }
    sequenced = SequencedMessages(
        *(records, queue, events, drops, handlers),
        rates=state.rates,
        membership=membership,
        history=histories.history,
        links=links.receiving,
        imprints=links.imprints,
        link_keys=state.link_keys,
        routes=links.routes,
    )
    unsequenced = UnsequencedMessages(
        *(groups, queue, events),
        acknowledgements=acknowledgements,
        heartbeat=heartbeat,
        heads=histories.heads,
        history=histories.history.exchange,
        left=of_groups.left,
        ephemeral=ephemeral,
        content=content,
        mailboxes=mailboxes,
        routes=links.routes,
    )
    receiver = Receiver(
        *(given.identity, records, drops, sequenced, unsequenced),
        rates=state.rates,
        membership=membership,
        asking_back=of_groups.asking_back,
        queue=queue,
        links=links.receiving,
        link_keys=state.link_keys,
        content=content,
        mailboxes=mailboxes,
        traffic=state.traffic,
    )
    handlers |= receiver.handlers()  # last: an envelope within a message goes through all of the above once more
    return ReceivingMachines(receiver, group_messages)


def _history_handlers(
    given: Given, of_groups: GroupMachines, histories: HistoryMachines
) -> Mapping[MessageType, Handler]:
    membership, counters = of_groups.membership, given.records.counters
    history, newcomers = histories.history, histories.newcomers
    return HistoryMessages(history, membership, of_groups.maintenance, counters, newcomers).handlers()


def _order_handlers(reports: ReportMachines, landing: TelemetryLanding) -> Mapping[MessageType, Handler]:
    """Return the handlers of reports; a collector also lands them, because its tables show results."""
    handlers = OrderMessages(reports.settings, reports.received).handlers()
    return {kind: landing.beside(handler) for kind, handler in handlers.items()}
