"""Epoch secrets for files from before this device joined (docs/protocol/content.md, "Content", *Who came later*).

1. A device asks for the secret of the epoch in which a requested file was sealed, if it cannot open the file; by the id
   of the file's offer, from the same members as the file, one at a time.
2. A member gives the secret if it has the whole file pinned, and only for an offer that names a manifest of that very
   epoch: the offer's author was in the epoch and had its secret. So no later member can write an offer that reveals the
   secret of another epoch. No epoch secret opens a file for selected devices.
3. A received secret is kept if the offer's epoch is its hash. So a false one is detected at once, and no offer can open
   as two different files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from covey.core.content.messages import WantedFile
from covey.core.group.manifest import read_manifest, secret_id
from covey.core.group.messages import SECRET_BYTES
from covey.core.history.files import FileOffer
from covey.core.history.kinds import OperationKind
from covey.core.history.operation import Operation, read_operation
from covey.core.ids import ContentHash, EpochId, GroupId, OperationId
from covey.core.now import Now
from covey.errors import WrongContentError

if TYPE_CHECKING:
    from covey.core.records import Records


@dataclass(frozen=True, slots=True)
class WantedSecret:
    """The secret of an epoch that is asked for, as `asked`: as a file of so many bytes that an offer's id names."""

    asked: WantedFile
    epoch_id: EpochId


class SecretProgress:
    """What has come of a secret: nothing, or all of it. It is asked for as a file is whose index is here."""

    has_index = True
    end = next_bytes = SECRET_BYTES

    def __init__(self, wanted: WantedSecret) -> None:
        self.wanted = wanted
        self.hash = wanted.asked.hash
        self.secret = b""

    @property
    def position(self) -> int:
        """The bytes that are here."""
        return len(self.secret)

    @property
    def is_complete(self) -> bool:
        """Whether it is here."""
        return bool(self.secret)

    def keep(self, pieces: Sequence[bytes | memoryview], now_us: int) -> bool:
        """Keep it, if it is the one (rule 3).

        Raises:
            WrongContentError: it is another one.
        """
        del now_us
        secret = b"".join(pieces)
        if secret_id(secret) != self.wanted.epoch_id:
            raise WrongContentError("the secret belongs to another epoch than requested")
        self.secret = secret
        return True

    def synchronise(self) -> bool:
        """Nothing is on its way to the disk."""
        return True


class EpochSecrets:
    """Which secrets this device asks for, and which it gives."""

    def __init__(self, records: Records) -> None:
        self._records = records

    def wanted(self) -> list[WantedSecret]:
        """Return what is lacked, by each file: of those of one epoch one may be pinned, and another one not (rule 1).

        What was asked for last comes first: nobody may have pinned the others.
        """
        found: list[WantedSecret] = []
        for group_id, offer_id in self._records.content.lacking():
            offered = self._offered(group_id, offer_id)
            if offered is None:
                continue
            operation, offer = offered
            if self._records.groups.secret(group_id, offer.epoch_id) is None:
                name = ContentHash(offer_id)
                asked = WantedFile(name, name, SECRET_BYTES, group_id, operation.author)
                found.append(WantedSecret(asked, offer.epoch_id))
        return found

    def keep(self, progress: SecretProgress, now: Now) -> None:
        """Keep a secret that has come."""
        wanted = progress.wanted
        self._records.groups.save_secret(wanted.asked.group_id, wanted.epoch_id, progress.secret, now.wall_us)

    def given(self, group_id: GroupId, offer_id: OperationId) -> bytes | None:
        """Return the secret by which a file opens; None where this device does not give it (rule 2)."""
        offered = self._offered(group_id, offer_id)
        if offered is None:
            return None
        operation, offer = offered
        raw = self._records.groups.manifest(group_id, operation.manifest)
        if raw is None or read_manifest(raw, verify=False).epoch_id != offer.epoch_id:
            return None
        if not self._records.content.is_pinned(group_id, offer.content.hash):
            return None
        return self._records.groups.secret(group_id, offer.epoch_id)

    def _offered(self, group_id: GroupId, offer_id: OperationId) -> tuple[Operation, FileOffer] | None:
        raw = self._records.operations.raw(group_id, offer_id)
        operation = None if raw is None else read_operation(raw, verify=False)
        if operation is None or operation.kind != OperationKind.FILE:
            return None
        offer = FileOffer.from_wire(operation.body)
        return None if offer.sealed_secret is not None else (operation, offer)
