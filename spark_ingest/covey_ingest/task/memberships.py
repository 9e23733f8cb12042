"""Turn signed manifests and profiles into rows of members and labels. Needs no Spark.

    memberships/batch=N/   one row for each member of each manifest that landed, and one for each profile

1. A manifest is signed by its issuer, a profile by its author, and both are verified again here. That a manifest held,
   and since when, says the collector that landed it: nobody else's word is in the vault, and a manifest has no time.
2. What two collectors landed, or one did twice, is there twice: `members` knows it by `said`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from covey.core.group.manifest import Role
from covey.core.history.bodies import read_profile
from covey.core.history.kinds import OperationKind
from covey.core.history.operation import Operation
from covey.core.ids import printable
from covey.core.vault.landed_records import read_landed_manifest

TABLE = "memberships"

MEMBERSHIP = pa.struct(
    [
        ("said", pa.string()),  # hash of the manifest, or id of the profile's operation
        ("version", pa.int64()),  # of the manifest, or the operation's height: the highest holds
        ("signer", pa.string()),
        ("label", pa.string()),  # of a member
        ("role", pa.string()),
        ("board", pa.bool_()),
        ("title", pa.string()),  # of a group
    ]
)


def member_rows(raw: bytes, *, verify: bool) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield the group, the member and its `MEMBERSHIP`, of a landed manifest.

    Raises:
        RemoteError: malformed, or not signed by its issuer.
    """
    manifest = read_landed_manifest(raw, verify=verify)
    said = {"said": manifest.hash.hex(), "version": manifest.version, "signer": manifest.issuer.hex()}
    for member in manifest.members:
        about = {"label": printable(member.label), "role": Role(member.role).name.lower(), "board": member.is_board}
        yield manifest.group_id.hex(), member.keys.signing_public.hex(), said | about


def is_profile(operation: Operation) -> bool:
    """Say whether a landed operation describes a group."""
    return operation.kind == OperationKind.PROFILE


def profile_row(operation: Operation) -> dict[str, Any]:
    """Return the `MEMBERSHIP` of a profile.

    Raises:
        RemoteError: malformed.
    """
    title = printable(read_profile(operation.raw).title)
    signer = operation.author.hex()
    return {"said": operation.id.hex(), "version": operation.height, "signer": signer, "title": title}
