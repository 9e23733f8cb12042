"""Import a group's history that somebody carried by hand (docs/protocol/content.md, "Export files").

Every document is judged as if a relay had delivered it; the carrier has no authority.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from covey.core.history.history import History, Taken
from covey.core.ids import GroupId
from covey.core.membership.actions import GroupActions
from covey.core.membership.membership import Membership
from covey.core.membership.past import Past
from covey.core.now import Now
from covey.errors import RemoteError

if TYPE_CHECKING:
    from covey.core.records.link import CounterRecords


class HistoryImport:
    """Takes manifests and operations from a file. Every call writes, so it belongs inside a transaction."""

    def __init__(
        self, membership: Membership, past: Past, history: History, actions: GroupActions, counters: CounterRecords
    ) -> None:
        self._membership = membership
        self._past = past
        self._history = history
        self._actions = actions
        self._counters = counters

    def take_manifests(self, group_id: GroupId, raws: tuple[bytes, ...], now: Now) -> RemoteError | None:
        """Take manifests of a group that is held, each after what it follows; queue what others have to hear of it.

        Return which rule one of them breaks, None where none does.

        Raises:
            UnknownGroupError: this device knows nothing of the group.
        """
        self._past.take(group_id, raws, now)
        try:
            sends = self._membership.take(group_id, raws, now.wall_us)
        except RemoteError as error:
            self._counters.count(f"dropped_manifest_{error.code}")
            return error
        self._actions.queue_sends(sends, now)
        return None

    def take_operations(self, group_id: GroupId, raws: tuple[bytes, ...], now: Now) -> Taken:
        """Take operations, each after what it follows; those that break a rule are counted, and left out."""
        taken = self._history.take(group_id, raws, now)
        for error in taken.refused:
            self._counters.count(f"dropped_operation_{error.code}")
        return taken
