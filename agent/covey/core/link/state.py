"""What a failed transaction does not undo: the link state of a process, handed from one node to the next."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from covey.core.crypto import Identity
from covey.core.ephemeral.state import EphemeralState
from covey.core.ids import DeviceKey
from covey.core.link.carriage import Carriage
from covey.core.link.costs import Traffic
from covey.core.link.link_keys import DEFAULT_TERMS, LinkTerms, SendingLinks
from covey.core.link.pacing import HeadsPacing
from covey.core.link.rates import ReceivingRates
from covey.core.link.receiver import StartReport
from covey.core.link.windows import Windows
from covey.core.presence.status import PresenceState


@dataclass(slots=True)
class LinkState:
    """What is in flight, and what the network has told this process. Only what was committed changes the rest of it.

    A node is made from the store and this. Where a commit fails, the node is dropped, and another one is made from
    the same two (ADR 4): nothing has to be taken back, and nothing that is in flight is sent again for it.
    """

    link_keys: SendingLinks
    windows: Windows = field(default_factory=Windows)
    report: StartReport = field(default_factory=StartReport)
    presence: PresenceState = field(default_factory=PresenceState)
    rates: ReceivingRates = field(default_factory=ReceivingRates)
    ephemeral: EphemeralState = field(default_factory=EphemeralState)
    heads: HeadsPacing = field(default_factory=HeadsPacing)
    carriage: Carriage = field(default_factory=Carriage)
    traffic: Traffic = field(default_factory=Traffic)
    waiting_since_us: dict[DeviceKey, int] = field(default_factory=dict)
    """Since when each collector has left something without an answer."""
    aged_at_us: int | None = None
    """Up to when this process's running time is counted."""

    @classmethod
    def of_start(cls, identity: Identity, rng: Callable[[int], bytes], terms: LinkTerms = DEFAULT_TERMS) -> LinkState:
        """Return the state of a process that begins: nothing is in flight."""
        return cls(SendingLinks(identity.signing_public, rng, terms))
