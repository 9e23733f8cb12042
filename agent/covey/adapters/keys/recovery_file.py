"""A hub's recovery file: what a second machine needs to take the hub's place, sealed with a passphrase
(docs/protocol/vault.md, section 14).

It is `[1, salt16, passes, memory_kib, nonce24, sealed]`, sealed as `identity.key` is under a passphrase. The content is
the device's files by their place in the state folder, its groups with their secrets, and what its owner has approved.
Whoever has the file and the passphrase is the hub.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from covey.adapters.keys.passphrase import open_under_passphrase, read_passphrase, seal_under_passphrase
from covey.adapters.sqlite.file.groups_copy import CopiedGroup, read_copied_groups
from covey.core.ids import GROUP_ID_BYTES, KEY_BYTES, DeviceKey, GroupId
from covey.core.pairing.pending import Replacement
from covey.core.wire import cbor
from covey.errors import ConfigurationError, MalformedError, RemoteError
from covey.limits.group import MAXIMUM_LABEL_BYTES
from covey.limits.key import (
    MAXIMUM_RECOVERED_FILE_BYTES,
    MAXIMUM_RECOVERED_FILES,
    MAXIMUM_RECOVERED_OPERATORS,
    MAXIMUM_RECOVERED_REPLACEMENTS,
    MAXIMUM_RECOVERY_BYTES,
)

_DOMAIN = b"covey/1 recovery"
_VERSION = 1
_PATH_BYTES = 255

RECOVERED_FILES = (
    *("identity.key", "noise.keys", "vault.key", "config.toml", "ordered.json"),
    *("relay.password", "relay.pem", "relay-ca.pem", "invite-ca.pem", "*.secret", "*.password"),
    *("conf.d/*.toml", "operations.d/*.toml", "relays/*/*"),
    *("broker/passwords", "broker/passwords.*", "broker/names", "broker/former-names", "broker/ca/*"),
)
"""Which files of the state folder are in it, as patterns."""


@dataclass(frozen=True, slots=True)
class PinnedOperator:
    """An operator that the owner approved with a group's invite."""

    group_id: GroupId
    operator: DeviceKey
    inviter: DeviceKey
    pinned_at_us: int


@dataclass(frozen=True, slots=True)
class Recovery:
    """The content: `files` by their path in the state folder; `personal` is the group of the person's own devices."""

    saved_at_us: int
    files: dict[str, bytes] = field(repr=False)
    groups: tuple[CopiedGroup, ...] = field(repr=False)
    operators: tuple[PinnedOperator, ...] = ()
    personal: GroupId | None = None
    replaced: tuple[tuple[Replacement, DeviceKey], ...] = ()
    """Members that newcomers have replaced, and these."""

    def sealed(self, passphrase: bytes | bytearray) -> bytes:
        """Return the file.

        Raises:
            ConfigurationError: there is more than a file holds.
        """
        operators = [[each.group_id, each.operator, each.inviter, each.pinned_at_us] for each in self.operators]
        plain = cbor.encode(
            [
                self.saved_at_us,
                [[name, self.files[name]] for name in sorted(self.files)],
                [each.to_wire() for each in self.groups],
                operators,
                self.personal or b"",
                [[each.secret_hash, each.group_id, each.replaced, each.label, new] for each, new in self.replaced],
            ]
        )
        if len(plain) > MAXIMUM_RECOVERY_BYTES - _PATH_BYTES:
            raise ConfigurationError("the groups of this device are too large for a recovery file")
        return seal_under_passphrase(plain, _DOMAIN, _VERSION, passphrase)


def open_recovery(raw: bytes, passphrase: Callable[[], bytearray]) -> Recovery:
    """Open a recovery file; `passphrase` is called once, and its result is wiped.

    Raises:
        ConfigurationError: it is none, damaged, of a newer Covey, or the passphrase is wrong.
    """
    try:
        content = cbor.decode(raw, MAXIMUM_RECOVERY_BYTES)
        if isinstance(content, list) and content[:1] not in ([], [_VERSION]):
            raise ConfigurationError("a newer Covey wrote this recovery file", hint="upgrade Covey")
        plain = open_under_passphrase(content, _DOMAIN, MAXIMUM_RECOVERY_BYTES, "the recovery file", passphrase)
    except RemoteError as error:
        raise ConfigurationError(
            "this is not a recovery file, or it is damaged", hint="'covey hub save' writes such files"
        ) from error
    try:
        return _read(plain)
    except RemoteError as error:
        raise ConfigurationError("the recovery file is damaged, or a newer Covey wrote it") from error


def recovery_passphrase(file: str | None, *, twice: bool = False) -> bytearray:
    """Return the passphrase: a file's, or what a person types, `twice` for a new one. The caller wipes it.

    Raises:
        ConfigurationError: nobody is there to ask, or it is empty or too long; or as of `read_secret`.
        UsageError: the two that were typed differ.
    """
    if file is None and not (sys.stdin.isatty() or sys.stderr.isatty()):
        raise ConfigurationError(
            "a recovery file needs a passphrase, and there is no terminal to ask for it", hint="--password-file FILE"
        )
    path = None if file is None else Path(file)
    return read_passphrase(path, "passphrase of the recovery file: ", twice=twice)


def is_recovered(name: str) -> bool:
    """Return whether a recovery file contains the file at a path in the state folder."""
    path = PurePosixPath(name)
    plain = not path.is_absolute() and ".." not in path.parts and str(path) == name
    patterns = (PurePosixPath(each) for each in RECOVERED_FILES)
    return plain and any(len(each.parts) == len(path.parts) and path.match(str(each)) for each in patterns)


def _read(plain: bytes) -> Recovery:
    saved_at_us, files, groups, operators, personal, replaced = cbor.record(
        cbor.decode(plain, MAXIMUM_RECOVERY_BYTES),
        "recovery",
        cbor.uint(),
        cbor.many(_file, MAXIMUM_RECOVERED_FILES),
        lambda content: read_copied_groups(content, MAXIMUM_RECOVERY_BYTES),
        cbor.many(_operator, MAXIMUM_RECOVERED_OPERATORS),
        cbor.octets_to(GROUP_ID_BYTES),
        cbor.many(_replacement, MAXIMUM_RECOVERED_REPLACEMENTS),
    )
    pinned = tuple(PinnedOperator(*each) for each in operators)
    own = GroupId(personal) if personal else None
    return Recovery(saved_at_us, dict(files), tuple(groups), pinned, own, tuple(replaced))


def _file(value: object) -> tuple[str, bytes]:
    name, content = cbor.record(
        value, "recovered file", cbor.text(_PATH_BYTES), cbor.octets_to(MAXIMUM_RECOVERED_FILE_BYTES)
    )
    if not is_recovered(name):
        raise MalformedError("a file that is not part of a recovery")
    return name, content


def _replacement(value: object) -> tuple[Replacement, DeviceKey]:
    secret_hash, group_id, replaced, label, device = cbor.record(
        value,
        "replacement",
        cbor.octets(KEY_BYTES),
        cbor.octets(GROUP_ID_BYTES),
        cbor.octets(KEY_BYTES),
        cbor.text(MAXIMUM_LABEL_BYTES),
        cbor.octets(KEY_BYTES),
    )
    return Replacement(secret_hash, GroupId(group_id), DeviceKey(replaced), label), DeviceKey(device)


def _operator(value: object) -> list[object]:
    return list(
        cbor.record(
            value,
            "pinned operator",
            cbor.octets(GROUP_ID_BYTES),
            cbor.octets(KEY_BYTES),
            cbor.octets(KEY_BYTES),
            cbor.uint(),
        )
    )
