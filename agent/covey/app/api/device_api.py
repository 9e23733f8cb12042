"""The device API for commands: implemented by a running agent and by an opened state.

`answering_agent.py` asks a running agent through its socket, `opened_device.py` works on the opened state; the local
API is the latter, in the agent. Commands are written against `DeviceApi` alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from covey.app.checks.documents import Status
    from covey.app.history.documents import HistoryEntry
    from covey.app.history.pages import HistoryQuery
    from covey.app.relays.documents import HandedOver, Outbox
    from covey.app.telemetry.publishing import Outlet
    from covey.client import Blob


class DeviceApi(Protocol):
    """One device, by whatever way it is reached."""

    def status(self) -> Status:
        """Return how the device is."""

    def outbox(self, limit: int) -> Outbox:
        """Return what waits, with the oldest `limit` messages of each recipient."""

    def metrics(self, form: str) -> str:
        """Return the numbers as `openmetrics`, or in the older text format of `prometheus`."""

    def outlet(self, batch: int | None) -> Outlet:
        """Return where readings go, `batch` to a message; None is as configured."""

    def publish(self, content: bytes, content_type: str, batch: int | None, key: str | None) -> int:
        """Queue a request's readings durably, all or none, and once for each key; return how many those were."""

    def send(
        self, content: bytes, group: str | None, to: str | None, expires_s: int | None, key: str | None = None
    ) -> int:
        """Queue a blob durably for every other member of a group, or for one, once for each key; return how many."""

    def send_ephemeral(self, content: bytes, group: str | None) -> int:
        """Say something to the members of a group who are there now, which nobody keeps; return to how many it goes."""

    def hand_over(self, to: str | None, seconds: float) -> HandedOver:
        """Have what waits, for one recipient or for all, kept by mailboxes at once; wait so long until it is."""

    def receive(self, seconds: float, *, in_order: bool) -> Iterator[Blob]:
        """Yield the blobs that have arrived, oldest first; where there is none, wait so long for the first."""

    def delete(self, identifier: int) -> None:
        """Delete a blob from the inbox permanently."""

    def history(self, query: HistoryQuery, *, follow: bool = False) -> Iterator[HistoryEntry]:
        """Yield what is wanted of a group's history, in the order that holds everywhere, then perhaps what comes."""

    def waiting_after(self, seconds: float) -> int:
        """Give what is queued so long to be delivered; return how many messages still wait."""
