"""The whole error tree: one class for each broken rule.

* `RemoteError`: a peer, the relay or the vault store broke a rule. Drop, count, carry on; never crash.
* `LocalError`: the caller's mistake. Tell the person what to do (`hint`) and exit with `exit_code`.
* `TransientError`: try again later.
* `StorageError`: stop, and keep the data.

Every class has a stable `code`, which logs, counters, `--json` and tests name. Messages never hold key
material; text that came from a peer is sanitised before it is shown.
"""

from __future__ import annotations

import errno


class CoveyError(Exception):
    """The root of the tree."""

    code = "error"
    exit_code = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class RemoteError(CoveyError):
    """Bytes from outside broke a rule."""

    code = "remote"


class MalformedError(RemoteError):
    """Not deterministic CBOR, or not of the shape that its type asks for."""

    code = "malformed"


class UnsupportedError(RemoteError):
    """Well-formed, but this build does not know a key, suite, type or rule that it must understand to use it.

    Never a sign of an attack: the author may run a newer Covey. Its message names what is unknown.
    """

    code = "unsupported"


class LimitError(RemoteError):
    """A bound of `limits` is exceeded."""

    code = "limit"


class RateError(RemoteError):
    """More by one author than is dealt with in a time (002.35). It was not read; who is honest sends it again."""

    code = "rate"


class DecryptionError(RemoteError):
    """Did not open. Wrong key, wrong context and tampering look alike on purpose."""

    code = "decryption"


class UnknownVaultKeyError(DecryptionError):
    """A vault object is sealed with a key that this reader was not given."""

    code = "vault_key"

    def __init__(self) -> None:
        super().__init__("sealed with a vault key that this reader was not given: a removal, or a person, changed it")


class SignatureError(RemoteError):
    """An Ed25519 signature does not verify over the exact bytes received."""

    code = "signature"


class NotForUsError(RemoteError):
    """A signed message names another recipient than the one whose key opened it."""

    code = "not_for_us"


class UnknownGroupError(RemoteError):
    """The message names a group that this device neither holds nor has asked to join."""

    code = "unknown_group"


class NotAMemberError(RemoteError):
    """A valid signature by a device that the current group manifest does not list (000.24)."""

    code = "not_a_member"


class UnknownIssuerError(RemoteError):
    """A group manifest by an issuer whom the manifest before does not list (000.13)."""

    code = "unknown_issuer"


class RollbackError(RemoteError):
    """A version or sequence at or below the one already held (000.14, 004.16)."""

    code = "rollback"


class VersionGapError(RemoteError):
    """A group manifest that is not exactly the next version (000.02), or does not follow the one held."""

    code = "version_gap"


class GenesisError(RemoteError):
    """A genesis manifest for a group that nobody here has created or asked to join (000.15)."""

    code = "genesis"


class NotAllowedError(RemoteError):
    """A group manifest by a member whom the group's mode does not let do that (003.07)."""

    code = "not_allowed"


class AheadError(RemoteError):
    """A message of a group that rests on a manifest that has not come yet: it waits."""

    code = "ahead"


class VoteError(RemoteError):
    """A ban or its end without the votes of more than half of the admins, or with votes that may not be (003.34)."""

    code = "vote"


class InviteError(RemoteError):
    """An invite that is unknown, used, expired, or not the pinned inviter's."""

    code = "invite"


class WrongVaultError(RemoteError):
    """A vault object whose ids do not match the key it stands under (004.20, 004.21)."""

    code = "wrong_vault"


class WrongContentError(RemoteError):
    """Bytes that are not of the file that they were given for (003.72, 003.74)."""

    code = "wrong_content"


class MailboxSessionError(RemoteError):
    """A message to a mailbox that was not greeted, or has forgotten that it was, or to or of none."""

    code = "session"


class MissingObjectError(RemoteError):
    """A vault manifest lists an object that the store does not have."""

    code = "missing"


class LocalError(CoveyError):
    """The caller asked for something that cannot be done."""

    code = "local"


class DamagedFileError(LocalError):
    """A file of a group that is here is no longer what was offered: the disk has changed it. It is fetched anew."""

    code = "damaged_file"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"'{name}' was damaged on this disk",
            hint="it is fetched anew, what is sound of it apart: 'covey file list --waiting' shows how far it is",
        )


class TimeUpError(LocalError):
    """What was waited for has not come in the time that the caller gave; 124 as of timeout(1)."""

    code = "time_up"
    exit_code = 124


class UsageError(LocalError):
    """The command line is wrong."""

    code = "usage"
    exit_code = 2


class ConfigurationError(LocalError):
    """Configuration, keys or their permissions are wrong; restarting will not help (EX_CONFIG)."""

    code = "configuration"
    exit_code = 78


class MissingPackageError(ConfigurationError):
    """A Python package is not there that not everybody needs. Debian's Python takes them from Debian alone."""

    code = "missing_package"

    def __init__(self, purpose: str, package: str, *, in_debian: bool = True, debian: str = "") -> None:
        """Say what needs it; `package` is its name in Python's index, and in Debian after `python3-`, or `debian`."""
        name = debian or f"python3-{package.removeprefix('py')}"
        environment = f"in a virtual environment: python -m pip install {package}"
        hint = f"apt install {name}; {environment}" if in_debian else f"{environment} (Debian has none)"
        super().__init__(f"{purpose} needs the Python package {package}", hint=hint)


class SettingError(LocalError):
    """A setting that may not be given; `code` says why not (docs/protocol.md, "Settings")."""

    code = "setting"

    def __init__(self, message: str, code: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.code = code


class ActionError(LocalError):
    """An action that this device does not do; `code` says why not (docs/protocol.md, "Commands")."""

    code = "action"

    def __init__(self, message: str, code: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.code = code


class GroupDestroyedError(LocalError):
    """The only group of this device was destroyed: it is a new device at its next start (000.23)."""

    code = "group_destroyed"


class PairingError(LocalError):
    """A ceremony did not end well; `code` says how (docs/protocol.md, "Pairing")."""

    code = "pairing"

    def __init__(self, message: str, code: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.code = code


class OutboxFullError(LocalError):
    """The outbox has reached its bound in bytes; nothing was queued."""

    code = "outbox_full"


class IdempotencyError(LocalError):
    """A request names the idempotency key of another one; nothing was queued."""

    code = "idempotency"


class ReadingError(LocalError):
    """Input that is not a reading: bad SenML, an unnamed or infinite value."""

    code = "reading"


class TransientError(CoveyError):
    """Could work later without anybody changing anything."""

    code = "transient"


class RelayError(TransientError):
    """The relay is unreachable or refuses."""

    code = "relay"


class PatchError(RemoteError):
    """A patch makes another file than the one that it is for."""

    code = "patch"


class PeerError(TransientError):
    """A place nearby is not reached, or gives less of a file than it was asked for."""

    code = "peer"


class AlertTargetError(TransientError):
    """A webhook, mail server or program has not taken an alert."""

    code = "alert_target"


class DoorError(TransientError):
    """A receiver of readings has not taken a batch.

    `refused`: as nothing that it ever takes. `retry_after_s`: how long it asks to be left alone, in seconds.
    """

    code = "door"

    def __init__(self, message: str, *, hint: str = "", refused: bool = False, retry_after_s: float = 0.0) -> None:
        super().__init__(message, hint=hint)
        self.refused = refused
        self.retry_after_s = retry_after_s


class AgentUnreachableError(TransientError):
    """No agent answers on its socket, or this user may not ask it."""

    code = "agent_unreachable"


class SensorError(TransientError):
    """A sensor does not measure: it is gone, silent, or says what nobody can read."""

    code = "sensor"


class AgentVersionError(LocalError):
    """What the agent answers is not what this version of Covey reads."""

    code = "agent_version"

    @classmethod
    def lacking(cls, name: str) -> AgentVersionError:
        """Return the error where an answer lacks something."""
        hint = "restart the agent, if it was updated since it started; else update it: sudo systemctl restart covey"
        return cls(f"the agent is of another version: its answer lacks {name}", hint=hint)


class StorageError(CoveyError):
    """The disk refused. Nothing was released; what was stored stays stored."""

    code = "storage"


class DamagedStateError(StorageError):
    """The state database is not what was written. The next start sets it aside and saves what can be read."""

    code = "damaged_state"


class ConflictError(StorageError):
    """An object was replaced by somebody else since this device last read or wrote it."""

    code = "conflict"


class ConstraintError(CoveyError):
    """A value that the state's tables refuse: a defect, whatever brought it out, and no fault of the disk.

    The transaction is rolled back.
    """

    code = "constraint"


class DiskFullError(StorageError):
    """No room left on the device that holds the state."""

    code = "disk_full"


def hint_of_errno(number: int | None) -> str:
    """Return what to do about what the system refused, by its errno; empty where its own words are enough."""
    if number == errno.EROFS:
        return "its disk is read-only: 'dmesg' says why; where the card is worn out, copy it to a new one"
    if number in {errno.EACCES, errno.EPERM}:
        return "it belongs to another user: run the command as that user, e.g. sudo -u covey covey …"
    if number == errno.EIO:
        return "its disk may be broken: see dmesg"
    return ""
