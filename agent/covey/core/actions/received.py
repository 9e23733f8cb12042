"""Store other devices' reports on commands (docs/protocol/history.md, "Commands").

1. The first result of a device for an order counts; further ones change nothing.
2. If the order is here, a result counts if the order is a command for the result's author by the manifest that the
   order names. Otherwise it is refused.
3. A result whose order is not here is kept separately, and judged by rule 2 whenever the order is read.
4. A device that has left the group may report results of orders that it was given there, if it shares another group
   with this device: it may have left before they were acknowledged. It sends a result again while its order is not
   here. Of an order that was deleted here, the manifest that it names remains, and judges.
5. Of one device the last `RESULTS_OF_ONE` results in a group are kept, and their last outputs, up to
   `RESULT_OUTPUT_BYTES_OF_ONE` and its share of `RESULT_OUTPUT_BYTES`: so no device takes another's room. If an output
   is deleted, the rest of the result stays.
6. A board's result comes from its current gateway, and counts as the board's if the board signed it. A signed result
   replaces one that a gateway reported in its place.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from covey.core.actions.results import OrderResult
from covey.core.group.manifest import GroupManifest, Member, read_manifest
from covey.core.history.bodies import read_body
from covey.core.history.body import OperationBody
from covey.core.history.operation import Operation, read_operation
from covey.core.history.orders import CommandOrder, SettingOrder
from covey.core.ids import DeviceKey, GroupId, ManifestHash, OperationId
from covey.core.membership.groups import Groups
from covey.core.now import Now
from covey.errors import NotAllowedError, NotAMemberError
from covey.limits.actions import MAXIMUM_ACTION_OUTPUT_BYTES, RESULT_OUTPUT_BYTES, RESULT_OUTPUT_BYTES_OF_ONE

if TYPE_CHECKING:
    from covey.core.records import Records
    from covey.core.records.groups import GroupRecords


class ReceivedResults:
    """Keeps what members report of commands."""

    def __init__(self, groups: Groups, records: Records) -> None:
        self._groups = groups
        self._records = records
        self._last: tuple[bytes, Operation, OperationBody] | None = None
        """The order of the last result, as all devices of a wave report on one."""

    def keep(self, group_id: GroupId, device: DeviceKey, result: OrderResult, now: Now) -> bool:
        """Keep what a member reports, one that has left, or this device itself; return False if it is to come again.

        Raises:
            NotAllowedError: of an order that is none for that device.
            NotAMemberError: of a board that is none of the group.
            UnknownGroupError: this device is not in the group.
        """
        group = self._groups.group(group_id)
        raw = self._records.operations.raw(group_id, result.order)
        member = group.member(device)
        if member is None and result.board is None:
            shape = self._records.operations.shape(group_id, result.order)
            if shape is None:
                return False
            named = _named(self._records.groups, group, shape.manifest)
            member = None if named is None else named.member(device)
        if member is None or member.is_board:
            raise NotAllowedError("the sender of a result obeys no operator")
        if result.board is not None:
            device = result.board
            member = group.member(device)
            if member is None or not member.is_board:
                raise NotAMemberError("the result names a board that is not in the group")
        if raw is not None and not self._is_for(group, raw, device):
            raise NotAllowedError("the result answers an operation that is not an order for its author")
        share = max(MAXIMUM_ACTION_OUTPUT_BYTES, RESULT_OUTPUT_BYTES // len(group.members))
        share = min(share, RESULT_OUTPUT_BYTES_OF_ONE)
        self._records.order_results.keep(group_id, device, result, now.wall_us, share, judged=raw is not None)
        return True

    def _is_for(self, group: GroupManifest, raw: bytes, device: DeviceKey) -> bool:
        """Return whether an operation is an order for a device (rule 2), without looking at all others."""
        if self._last is None or self._last[0] != raw:
            operation = read_operation(raw, verify=False)
            self._last = raw, operation, read_body(operation)
        _, operation, order = self._last
        named = _named(self._records.groups, group, operation.manifest)
        member = None if named is None else named.member(device)
        return member is not None and _is_addressed(order, member)

    def of_board(self, group_id: GroupId, operation: OperationId, board: DeviceKey) -> OrderResult | None:
        """Return the stored result of an order on a board."""
        kept = self._records.order_results.of_device(group_id, operation, board)
        return None if kept is None or kept.result.board is None else kept.result


def addressees(manifests: GroupRecords, group: GroupManifest, operation: Operation) -> frozenset[DeviceKey]:
    """Return the targets of a command (rule 2), or the boards of a setting; empty for other operations."""
    order, named = read_body(operation), _named(manifests, group, operation.manifest)
    if named is None:
        return frozenset()
    return frozenset(member.keys.signing_public for member in named.members if _is_addressed(order, member))


def _is_addressed(order: OperationBody, member: Member) -> bool:
    if not isinstance(order, CommandOrder | SettingOrder) or not order.selector.selects(member):
        return False
    return member.is_board or isinstance(order, CommandOrder)


def _named(manifests: GroupRecords, group: GroupManifest, manifest: ManifestHash) -> GroupManifest | None:
    if manifest == group.hash:
        return group
    raw = manifests.manifest(group.group_id, manifest)
    return None if raw is None else read_manifest(raw)


def without_output(result: OrderResult) -> OrderResult:
    """Return a result as it is kept in a table: small."""
    return result if result.board is not None else replace(result, output=b"")
