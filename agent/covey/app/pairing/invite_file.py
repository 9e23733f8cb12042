"""The invite file with which an unattended device joins (docs/protocol/groups.md, "Pairing").

It is TOML, a secret until it is used, and useless afterwards: the device's label, the invite's URI, the relay's
authorities and the account there, and the actions that the invite's operators may run. It contains no private keys: the
device makes its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from covey.adapters.keys.key_file import write_secret
from covey.config.actions import is_action_name
from covey.config.settings import toml_value
from covey.core.ids import inbox_name, printable
from covey.core.pairing.invite import Invite
from covey.errors import ConfigurationError, LocalError
from covey.limits.actions import MAXIMUM_ACTIONS
from covey.limits.group import MAXIMUM_LABEL_BYTES
from covey.limits.pairing import MAXIMUM_CERTIFICATES_BYTES, MAXIMUM_CREDENTIAL_BYTES

SUFFIX = ".covey"
_MAXIMUM_BYTES = 64 * 1024
_HINT = "'covey invite --batch' writes such files"
_TEXTS = {"label": MAXIMUM_LABEL_BYTES, "certificates": MAXIMUM_CERTIFICATES_BYTES}
_TEXTS["credential"] = MAXIMUM_CREDENTIAL_BYTES


@dataclass(frozen=True, slots=True)
class InviteFile:
    """What a file says: `certificates` and `credential` as in an admission, empty where there are none.

    `obeys`: the device is to obey the operators that the invite names, as its owner, who wrote the file, has decided;
    `commands` are the actions that they may have it do (`operations.commands`).
    """

    label: str
    invite: Invite
    certificates: str = ""
    credential: str = field(default="", repr=False)
    obeys: bool = False
    commands: tuple[str, ...] = ()

    @property
    def account(self) -> str:
        """The user name of its account at the relay."""
        return inbox_name(self.invite.secret_hash)

    def write(self, path: Path) -> None:
        """Write it, for nobody else to read.

        Raises:
            LocalError: the relay's URL is too long.
            StorageError: the disk refused.
        """
        fields = {"label": self.label, "invite": self.invite.to_uri()}
        fields |= {"certificates": self.certificates, "credential": self.credential}
        head = "# One device's way into a Covey fleet: a secret, for one device. On that device: covey join THIS-FILE\n"
        lines = [f"{name} = {toml_value(value)}\n" for name, value in fields.items() if value]
        lines += ["obeys = true\n"] if self.obeys else []
        lines += [f"commands = {toml_value(self.commands)}\n"] if self.commands else []
        write_secret(path, (head + "".join(lines)).encode())


def read_invite_file(path: Path) -> InviteFile:
    """Read a file that a fleet's hub has written.

    Raises:
        ConfigurationError: it cannot be read.
        LocalError: it is something else, or was cut off.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(_MAXIMUM_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}", hint=_HINT) from error
    return parse_invite_file(raw, str(path))


def parse_invite_file(raw: bytes, where: str) -> InviteFile:
    """Parse what such a file holds. Raises as `read_invite_file`."""
    import tomllib

    try:
        content = tomllib.loads(raw[: _MAXIMUM_BYTES + 1].decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise LocalError(f"{printable(where)} is not an invite file, or is incomplete", hint=_HINT) from error
    texts = {name: content.get(name, "") for name in (*_TEXTS, "invite")}
    sound = all(isinstance(value, str) for value in texts.values()) and len(raw) <= _MAXIMUM_BYTES
    if not sound or any(len(texts[name].encode()) > most for name, most in _TEXTS.items()):
        raise LocalError(f"{printable(where)} is not an invite file: a field is too long or not text", hint=_HINT)
    obeys, commands = content.get("obeys", False), content.get("commands", [])
    named = isinstance(commands, list) and all(isinstance(each, str) and is_action_name(each) for each in commands)
    if not isinstance(obeys, bool) or not named or len(commands) > MAXIMUM_ACTIONS:
        raise LocalError(
            f"{printable(where)} is not an invite file: obeys must be true or false, commands must be names", hint=_HINT
        )
    invite = Invite.from_uri(texts["invite"])
    return InviteFile(texts["label"], invite, texts["certificates"], texts["credential"], obeys, tuple(commands))
