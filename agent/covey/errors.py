"""All errors that Covey raises: one class per broken rule.

* `RemoteError`: a peer, a relay or a vault broke a rule. The agent drops the input, counts it and continues.
* `LocalError`: the caller made a mistake. The command prints the message and the hint and exits with `exit_code`.
* `TransientError`: the same call may succeed later.
* `StorageError`: the disk refused. The agent stops and keeps the data.

Each class has a stable `code`, which logs, counters, `--json` and tests use. A message says what happened to what; the
hint says what to do. Messages never contain key material. The code that prints one escapes text from peers.
"""

from __future__ import annotations

import errno


class CoveyError(Exception):
    """Base class of all errors."""

    code = "error"
    exit_code = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class RemoteError(CoveyError):
    """Input from another device, a relay or a vault broke a rule."""

    code = "remote"


class MalformedError(RemoteError):
    """The bytes are not deterministic CBOR, or do not have the structure of their type."""

    code = "malformed"


class UnsupportedError(RemoteError):
    """Well-formed, but this build does not know a key, suite, type or rule that it must understand to use it.

    Never a sign of an attack: the author may run a newer Covey. Its message names what is unknown.
    """

    code = "unsupported"


class LimitError(RemoteError):
    """The input exceeds a limit (`covey.limits`)."""

    code = "limit"


class RateError(RemoteError):
    """The author exceeded its rate limit (002.35); the message was dropped unread. Honest senders retry."""

    code = "rate"


class DecryptionError(RemoteError):
    """A ciphertext does not open. A wrong key, a wrong context and tampering look the same on purpose."""

    code = "decryption"


class UnknownVaultKeyError(DecryptionError):
    """A vault object is sealed with a key that this reader does not have."""

    code = "vault_key"

    def __init__(self) -> None:
        super().__init__(
            "the object is sealed with a vault key that this reader does not have; the key changes when a device "
            "is removed"
        )


class SignatureError(RemoteError):
    """An Ed25519 signature does not verify over the exact bytes received."""

    code = "signature"


class NotForUsError(RemoteError):
    """A signed message names another recipient than the device whose key opened it."""

    code = "not_for_us"


class UnknownGroupError(RemoteError):
    """The message names a group that this device neither holds nor asked to join."""

    code = "unknown_group"


class NotAMemberError(RemoteError):
    """The author has a valid signature but is not in the current group manifest (000.24)."""

    code = "not_a_member"


class UnknownIssuerError(RemoteError):
    """The preceding group manifest does not list the issuer (000.13)."""

    code = "unknown_issuer"


class RollbackError(RemoteError):
    """A version or sequence is not above the one already held (000.14, 004.16)."""

    code = "rollback"


class VersionGapError(RemoteError):
    """A group manifest is not the next version (000.02), or does not follow a held one."""

    code = "version_gap"


class GenesisError(RemoteError):
    """The genesis manifest is for a group that this device neither created nor asked to join (000.15)."""

    code = "genesis"


class NotAllowedError(RemoteError):
    """The group's mode does not allow the issuer to make this change (003.07)."""

    code = "not_allowed"


class AheadError(RemoteError):
    """The message depends on a group manifest that has not arrived; it waits for that."""

    code = "ahead"


class VoteError(RemoteError):
    """A ban or unban without a majority of admin votes, or with invalid votes (003.34)."""

    code = "vote"


class InviteError(RemoteError):
    """The invite is unknown, used, expired, or not from the pinned inviter."""

    code = "invite"


class WrongVaultError(RemoteError):
    """A vault object's ids do not match its key in the store (004.20, 004.21)."""

    code = "wrong_vault"


class WrongContentError(RemoteError):
    """The bytes do not belong to the requested file (003.72, 003.74)."""

    code = "wrong_content"


class MailboxSessionError(RemoteError):
    """A mailbox message has no session with the mailbox, or one of its devices is not a mailbox."""

    code = "session"


class MissingObjectError(RemoteError):
    """The vault lacks an object that its manifest lists."""

    code = "missing"


class LocalError(CoveyError):
    """The caller asked for something impossible."""

    code = "local"


class DamagedFileError(LocalError):
    """The local copy of a group's file was damaged on this disk. The agent fetches the damaged parts again."""

    code = "damaged_file"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"the local copy of '{name}' was damaged on this disk",
            hint="the agent fetches the damaged parts again: 'covey file list --waiting' shows progress",
        )


class TimeUpError(LocalError):
    """The awaited event did not happen in the time that the caller gave; exit code 124, as of timeout(1)."""

    code = "time_up"
    exit_code = 124


class UsageError(LocalError):
    """The command line is wrong."""

    code = "usage"
    exit_code = 2


class ConfigurationError(LocalError):
    """Configuration, keys or file permissions are wrong; a restart does not help (exit code EX_CONFIG)."""

    code = "configuration"
    exit_code = 78


class MissingPackageError(ConfigurationError):
    """An optional Python package is missing. Debian's Python installs packages only from Debian."""

    code = "missing_package"

    def __init__(self, purpose: str, package: str, *, in_debian: bool = True, debian: str = "") -> None:
        """Take what needs the package, its name on PyPI, and its name in Debian (default: `python3-` + name)."""
        name = debian or f"python3-{package.removeprefix('py')}"
        environment = f"in a virtual environment: python -m pip install {package}"
        hint = f"sudo apt install {name}; {environment}" if in_debian else f"{environment} (Debian does not package it)"
        super().__init__(f"{purpose} needs the Python package {package}", hint=hint)


class SettingError(LocalError):
    """The setting is refused; `code` says why (docs/protocol/history.md, "Settings")."""

    code = "setting"

    def __init__(self, message: str, code: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.code = code


class ActionError(LocalError):
    """This device refuses the action; `code` says why (docs/protocol/history.md, "Commands")."""

    code = "action"

    def __init__(self, message: str, code: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.code = code


class GroupDestroyedError(LocalError):
    """The device's only group was destroyed; the device has a new identity at its next start (000.23)."""

    code = "group_destroyed"


class PairingError(LocalError):
    """Pairing failed; `code` says how (docs/protocol/groups.md, "Pairing")."""

    code = "pairing"

    def __init__(self, message: str, code: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.code = code


class OutboxFullError(LocalError):
    """The outbox has reached its limit in bytes; nothing was queued."""

    code = "outbox_full"


class IdempotencyError(LocalError):
    """A request uses the idempotency key of a different request; nothing was queued."""

    code = "idempotency"


class ReadingError(LocalError):
    """The input is not a valid reading: malformed SenML, no name, or a value that is not finite."""

    code = "reading"


class TransientError(CoveyError):
    """The same call may succeed later without any change."""

    code = "transient"


class RelayError(TransientError):
    """A relay cannot be reached or refuses this device."""

    code = "relay"


class PatchError(RemoteError):
    """A patch does not produce the file that it is for."""

    code = "patch"


class PeerError(TransientError):
    """A device on the local network cannot be reached, or sends less of a file than requested."""

    code = "peer"


class AlertTargetError(TransientError):
    """A webhook, mail server or program did not accept an alert."""

    code = "alert_target"


class DoorError(TransientError):
    """A receiver of readings did not accept a batch.

    `refused`: the receiver will never accept this batch. `retry_after_s`: how long it asks to wait, in seconds.
    """

    code = "door"

    def __init__(self, message: str, *, hint: str = "", refused: bool = False, retry_after_s: float = 0.0) -> None:
        super().__init__(message, hint=hint)
        self.refused = refused
        self.retry_after_s = retry_after_s


class AgentUnreachableError(TransientError):
    """No agent answers on the socket, or this user may not open it."""

    code = "agent_unreachable"


class SensorError(TransientError):
    """A sensor gives no reading: it is missing, silent, or sends malformed data."""

    code = "sensor"


class AgentVersionError(LocalError):
    """The running agent has another version than this command."""

    code = "agent_version"

    @classmethod
    def lacking(cls, name: str) -> AgentVersionError:
        """Return the error for an answer without a required field."""
        hint = "restart the agent: sudo systemctl restart covey; if that does not help, update Covey"
        return cls(f"the running agent has another version than this command: its answer lacks {name}", hint=hint)


class StorageError(CoveyError):
    """The disk refused. Nothing was sent or acknowledged; stored data stays stored."""

    code = "storage"


class DamagedStateError(StorageError):
    """The state database is damaged. The next start sets it aside and recovers what can be read."""

    code = "damaged_state"


class ConflictError(StorageError):
    """Another process replaced an object since this device last read or wrote it."""

    code = "conflict"


class ConstraintError(CoveyError):
    """A table of the state refuses a value: a defect of Covey, not of the disk. The transaction is rolled back."""

    code = "constraint"


class DiskFullError(StorageError):
    """The disk that holds the state is full."""

    code = "disk_full"


def hint_of_errno(number: int | None) -> str:
    """Return what to do about a system error, by its errno; empty if the system's own message is enough."""
    if number == errno.EROFS:
        return "the disk is read-only: 'dmesg' says why; if the card is worn out, copy it to a new one"
    if number in {errno.EACCES, errno.EPERM}:
        return "this user may not access it: run the command as its owner, e.g. sudo -u covey covey …"
    if number == errno.EIO:
        return "the disk may be failing: see dmesg"
    return ""
