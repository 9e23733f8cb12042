"""Asking members to acknowledge what is on trial, for the role that does what operators order."""

from __future__ import annotations

from contextlib import suppress

from covey.core.actions.installation import Installation, InstallationPhase
from covey.core.actions.installing import Installing
from covey.core.group.manifest import GroupManifest
from covey.core.ids import DeviceKey, OperationId, Place
from covey.core.node import Node
from covey.core.now import Now
from covey.errors import LocalError
from covey.ports import Transactions


class Trials:
    """What this process has sent since something is on trial."""

    def __init__(self, store: Transactions, installing: Installing) -> None:
        self._store = store
        self._installing = installing
        self._sent: dict[OperationId, dict[DeviceKey, Place]] = {}

    def look(self, node: Node, now: Now) -> bool:
        """Send what is to be acknowledged, and note that it was; return whether anything is being installed."""
        under_way = self._installing.under_way()
        on_trial = [each for each in under_way if each.phase is InstallationPhase.TRIAL]
        for each in on_trial:
            sent, group = self._sent.get(each.operation, {}), _group_of(node, each)
            is_alone = group is not None and node.probes.have_nobody(group)
            if is_alone or node.probes.are_acknowledged(sent):
                with self._store.transaction():
                    self._installing.acknowledged(each.operation)
            elif group is not None and not node.probes.wait(sent):
                with suppress(LocalError), self._store.transaction():
                    self._sent[each.operation] = node.probes.send(group, each.author, now)
        self._sent = {each.operation: self._sent.get(each.operation, {}) for each in on_trial}
        return bool(under_way)


def _group_of(node: Node, installation: Installation) -> GroupManifest | None:
    return next((each for each in node.groups.joined() if each.group_id == installation.group_id), None)
