"""`covey invite`: show a code, a QR code and a URI that let one device join, and wait for it.

`--batch` and `--labels` instead write a file for each device of a fleet, and do not wait.
"""

from __future__ import annotations

import argparse
import select
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from covey.app.device.device import Device
from covey.app.device.relay_access import has_authority
from covey.app.documents import to_json
from covey.app.groups.groups import check_for_others, pick_member
from covey.app.pairing import inviting
from covey.app.pairing.inviting import InviteEnd, Newcomer, OpenInvitation
from covey.app.pairing.preparing import cancel_prepared, prepare, prepared_invites
from covey.app.pairing.room import divided, places
from covey.app.wording import count
from covey.cli.device_options import open_device
from covey.cli.grammar import Parser, group_option, json_option, refuse_idle
from covey.cli.output.joining_view import print_operators
from covey.cli.output.terminal import print_json, print_table, read_text_file
from covey.cli.quantities import date_text, read_us
from covey.core.ids import labelled_name, printable
from covey.errors import PairingError, UsageError
from covey.limits.pairing import ADMISSION_US, MAXIMUM_PREPARED_INVITES, PREPARED_INVITE_US

if TYPE_CHECKING:
    from covey.core.group.manifest import Member

_DAY_US = 86_400_000_000
_SHORTEST_US = 60_000_000
_PREFIX = "gateway-"
_VALID = f"{PREPARED_INVITE_US // _DAY_US}d"


def batch_options(parser: Parser) -> None:
    """Add the options of a batch."""
    parser.add_argument(
        "--batch",
        type=int,
        metavar="COUNT",
        help="write this many invite files, one per device, for 'covey join FILE'",
    )
    parser.add_argument("--output", "-o", metavar="DIR", help="with --batch or --labels: folder for the files")
    parser.add_argument(
        "--label-prefix",
        metavar="TEXT",
        help=f"with --batch: labels are this text and a number (default: {_PREFIX})",
    )
    parser.add_argument(
        "--labels", metavar="FILE", help="file with one label per line: write an invite file for each; - is stdin"
    )
    parser.add_argument(
        "--valid",
        metavar="TIME",
        help=f"how long the files are valid, at most {ADMISSION_US // _DAY_US}d (default: {_VALID})",
    )
    parser.add_argument(
        "--command",
        dest="commands",
        action="append",
        default=[],
        metavar="ACTION",
        help="with --batch or --labels: allow operators to run this action",
    )
    parser.add_argument("--list", action="store_true", help="list invite files and the devices that joined with them")


@dataclass(frozen=True, slots=True)
class Batch:
    """The number of files or the file of labels; the other options as they were given."""

    count: int | None
    labels: str | None
    label_prefix: str | None
    folder: str | None
    valid: str | None
    capabilities: tuple[str, ...]
    operators: Sequence[str] | None
    commands: tuple[str, ...]

    def all_labels(self) -> list[str]:
        """Return the devices' labels.

        Raises:
            UsageError: the labels are ambiguous, or there are too many.
        """
        if self.labels is not None:
            if self.label_prefix is not None:
                raise UsageError("--label-prefix has no effect with --labels", hint="use it with --batch COUNT")
            if self.count is not None:
                raise UsageError("--labels and --batch exclude each other", hint="give one of them")
            lines = (line.strip() for line in read_text_file(self.labels).splitlines())
            return [line for line in lines if line]
        if self.count is None or not 1 <= self.count <= MAXIMUM_PREPARED_INVITES:
            raise UsageError(f"--batch takes 1 to {MAXIMUM_PREPARED_INVITES}")
        digits = len(str(self.count))
        return [f"{self.label_prefix or _PREFIX}{number:0{digits}}" for number in range(1, self.count + 1)]


def write_batch(device: Device, group: str | None, batch: Batch, *, fleet: bool, as_json: bool) -> int:
    """Write the files, and print what to do with them; `fleet`: into groups of the fleet with room."""
    if batch.folder is None:
        raise UsageError("no folder is given for the files", hint="covey invite --batch 40 -o DIR")
    labels = batch.all_labels()
    chosen = places(device, len(labels)) if fleet else [(device.pick_group(group), len(labels))]
    newcomers = divided(chosen, labels)
    paths = prepare(
        device,
        newcomers,
        Path(batch.folder),
        read_us("--valid", batch.valid or _VALID, ADMISSION_US, _SHORTEST_US),
        capabilities=batch.capabilities,
        operators=batch.operators,
        commands=batch.commands,
    )
    if as_json:
        for (joined, label), path in zip(newcomers, paths, strict=True):
            print_json({"label": label, "file": str(path), "group_id": joined.group_id.hex()})
        return 0
    print(
        f"{count(len(paths), 'file')} in {printable(batch.folder)}, each secret and for one device; "
        f"valid for {batch.valid or _VALID}",
        file=sys.stderr,
    )
    if fleet:
        for joined, taken in chosen:
            _print_group(joined.group_id.hex(), len(joined.members), taken)
    print("on each device: covey join FILE", file=sys.stderr)
    if batch.operators is None:
        print(
            "note: these devices will obey no operator unless you add --operator NAME here or --obey there",
            file=sys.stderr,
        )
    for joined, _ in chosen[:1]:
        _note_missing_approval(device, joined.group_id.hex(), batch.operators)
    if not has_authority(device.config):
        print(
            "note: this device cannot make accounts at the relay (broker.password_file): each device needs one first",
            file=sys.stderr,
        )
    return 0


def _print_group(group: str, members: int, newcomers: int) -> None:
    print(f"{count(newcomers, 'device')} for group {group[:8]} with {count(members, 'member')}", file=sys.stderr)


def _note_missing_approval(device: Device, group: str | None, operators: Sequence[str] | None) -> None:
    if hint := inviting.lacks_own_approval(device, group, operators):
        print(f"note: this device cannot give orders yet; {hint}", file=sys.stderr)


def show_prepared(device: Device, *, as_json: bool) -> int:
    found = prepared_invites(device)
    if as_json:
        for each in found:
            print_json(to_json(each))
        return 0
    rows = [
        (printable(each.label), each.id, each.state, each.joined or "", date_text(each.expires_at_us)) for each in found
    ]
    print_table(("label", "id", "state", "device", "valid until"), rows)
    return 0


EVERY = ""
"""`--cancel` without a label."""


def add_arguments(parser: Parser) -> None:
    """Add this command's options."""
    group_option(parser)
    parser.add_argument("--fleet", action="store_true", help="the group of your fleet with the most room")
    parser.add_argument(
        "--capability",
        action="append",
        default=[],
        metavar="NAME",
        help="role of the device in the group, e.g. collector",
    )
    parser.add_argument(
        "--to", metavar="DEVICE", help="invite a member of another group you share; its user must accept"
    )
    parser.add_argument(
        "--replace", metavar="DEVICE", help="the new device replaces this member: label, roles and series"
    )
    parser.add_argument(
        "--operator",
        action="append",
        metavar="NAME",
        help="operator of the new device: member, key or none (default: as here)",
    )
    parser.add_argument("--yes", action="store_true", help="admit the device that knows the code without asking")
    parser.add_argument("--no-wait", action="store_true", help="do not wait for the device; an agent must be running")
    parser.add_argument("--no-qr", action="store_true", help="do not show a QR code")
    parser.add_argument(
        "--cancel",
        nargs="?",
        const=EVERY,
        metavar="LABEL",
        help="cancel all open invites, or the invite file with this label or id",
    )
    batch_options(parser)
    json_option(parser, "print JSON, one document per line")


def run(options: argparse.Namespace) -> int:
    """Open an invite for one device, valid for ten minutes."""
    _check_effects(options)
    with open_device(options) as device:
        if options.list:
            return show_prepared(device, as_json=options.json)
        if options.cancel is not None:
            return _cancel(device, options.cancel, as_json=options.json)
        if not options.fleet:
            check_for_others(device.pick_group(options.group))
        if options.batch is not None or options.labels is not None:
            return write_batch(device, options.group, _batch(options), fleet=options.fleet, as_json=options.json)
        if options.replace is not None:
            return _replace(device, options)
        if options.fleet:
            ((group, _),) = places(device, 1)
            options.group = group.group_id.hex()
            _print_group(options.group, len(group.members), 1)
        if options.to is not None:
            return _invite_member(device, options)
        return invite_device(device, options)


_OF_FILES = ("output", "label_prefix", "valid", "commands")
_OF_INVITES = ("capability", "operator")
_OF_CODES = ("yes", "no_wait", "no_qr")


def _check_effects(options: argparse.Namespace) -> None:
    """Refuse options that have no effect with the others."""
    for way in ("list", "cancel"):
        if getattr(options, way) not in {None, False}:
            refuse_idle(
                options,
                f"--{way}",
                "group",
                "fleet",
                "to",
                "replace",
                "batch",
                "labels",
                *_OF_FILES,
                *_OF_INVITES,
                *_OF_CODES,
            )
    if options.fleet and options.group:
        raise UsageError("--fleet and --group exclude each other", hint="give one of them")
    if options.replace is not None:
        refuse_idle(options, "--replace", "fleet", "to", "batch", "labels", "label_prefix")
        if options.output is not None:
            refuse_idle(options, "--output", *_OF_CODES)
            return
    if options.batch is not None or options.labels is not None:
        refuse_idle(options, "--batch" if options.labels is None else "--labels", "to", *_OF_CODES)
        return
    refuse_idle(options, "an invite without --batch or --labels", *_OF_FILES)
    if options.to is not None:
        refuse_idle(options, "--to", "fleet", "operator", "yes", "no_qr")


def _batch(options: argparse.Namespace) -> Batch:
    return Batch(
        options.batch,
        options.labels,
        options.label_prefix,
        options.output,
        options.valid,
        tuple(options.capability),
        options.operator,
        tuple(options.commands),
    )


def invite_device(
    device: Device, options: argparse.Namespace, command: str = "covey join", replaces: Member | None = None
) -> int:
    """Open an invite and wait for the joiner; `command` is what to run on the new device.

    `replaces` is the member that it replaces.
    """
    invitation = inviting.open_invitation(
        device,
        options.group,
        tuple(options.capability),
        accepts_any=options.yes,
        with_code=_wants_code(options),
        operators=options.operator,
        replaces=replaces,
    )
    _print(invitation, options, command)
    if options.no_wait:
        return 0
    try:
        return _Dialogue(invitation, options).run()
    except KeyboardInterrupt:
        invitation.cancel()
        raise


def _wants_code(options: argparse.Namespace) -> bool:
    """Whether to show a code: somebody can accept the joiner here, and codes can be drawn."""
    if not options.yes and options.no_wait:
        return False
    if not inviting.codes_can_be_drawn():
        print("note: this is a URI, not a code; codes need python3-spake2 and python3-mnemonic", file=sys.stderr)
        return False
    return True


def _print(invitation: OpenInvitation, options: argparse.Namespace, command: str) -> None:
    """Print the URI alone on stdout, for scripts, and the rest on stderr."""
    invite, code = invitation.invite, invitation.code
    uri = invite.to_uri()
    if options.json:
        named = [to_json(each) for each in invitation.operators()]
        shown = {
            "uri": uri,
            "id": invite.secret_hash.hex(),
            "group_id": invite.group_id.hex(),
            "expires_at_us": invite.expires_at_us,
            "operators": named,
        }
        said = {} if code is None else {"code": code, "join": _said(code, invite.relay_url)}
        print_json({**said, **shown})
        sys.stdout.flush()
        return
    if sys.stderr.isatty() and not options.no_qr:
        print(inviting.qr_code(invite), file=sys.stderr)
    print(uri, flush=True)
    print_operators(invitation.operators())
    _note_missing_approval(invitation.device, options.group, options.operator)
    if code is not None:
        print(f"code: {code}", file=sys.stderr)
        print(f"on the new device: {command} {_said(code, invite.relay_url)}", file=sys.stderr)
    if not options.no_wait:
        print("valid for ten minutes, for one device; waiting for it to join ...", file=sys.stderr, flush=True)


def _said(code: str, relay_url: str) -> str:
    """Return the arguments of the command for the new device."""
    return inviting.code_at_relay(code, relay_url) or f"{code} --relay {relay_url}"


class _Dialogue:
    """Waits for the joiner, and asks the person about one that comes by the code; no key press is awaited."""

    def __init__(self, invitation: OpenInvitation, options: argparse.Namespace) -> None:
        self._invitation = invitation
        self._options = options
        self._introduced = False
        self._decided = options.yes

    def run(self) -> int:
        """Wait, then print the result."""
        try:
            end = self._invitation.wait(self._look)
        except PairingError as error:
            if self._options.json:
                print_json({"ended": error.code})
            raise
        if end is InviteEnd.JOINED:
            name, label = self._invitation.joined() or ("", "")
            if self._options.json:
                print_json({"joined": name, "label": label})
            print(f"joined: {labelled_name(name, label)}", file=sys.stderr)
            return 0
        words = (
            "no device joined"
            if end is InviteEnd.NOBODY
            else "accepted, but the device has not joined yet; it has one hour"
        )
        print(words, file=sys.stderr)
        return 1

    def _look(self) -> None:
        newcomer = self._invitation.newcomer()
        if newcomer is None:
            return
        if not self._introduced:
            self._introduced = True
            self._introduce(newcomer)
        if not self._decided and select.select([sys.stdin], [], [], 0)[0]:
            self._decided = True
            answer = sys.stdin.readline()
            if not answer:
                print("no answer on stdin; --yes accepts without asking", file=sys.stderr)
            self._invitation.decide(accepts=answer.strip().lower() in {"y", "yes"})

    def _introduce(self, newcomer: Newcomer) -> None:
        name, words = newcomer.name, newcomer.verifier
        if self._options.json:
            lacks = newcomer.lacks_account
            named = [to_json(each) for each in newcomer.operators]
            print_json(
                {"joiner": name, "label": newcomer.label, "verifier": words, "lacks_account": lacks, "operators": named}
            )
            sys.stdout.flush()
        print(f"the other device: {labelled_name(name, newcomer.label)}", file=sys.stderr)
        print(f"verifier words:   {' '.join(words)}", file=sys.stderr)
        print_operators(newcomer.operators)
        if newcomer.lacks_account and not has_authority(self._invitation.device.config):
            print(
                "note: that device has no account at the relay, and this device cannot create one "
                f"(broker.password_file); create one for {newcomer.signing_public}",
                file=sys.stderr,
            )
        if not self._decided:
            print("does the other device show the same words? admit it? [y/N] ", end="", file=sys.stderr, flush=True)


def _invite_member(device: Device, options: argparse.Namespace) -> int:
    """Invite a member of another group of this device."""
    member, group_id = inviting.invite_member(device, options.group, options.to, tuple(options.capability))
    if options.json:
        print_json({"invited": member.name, "group_id": group_id.hex()})
    else:
        waits = labelled_name(member.name, member.label)
        print(f"invited {waits}; its user answers with 'covey request'", file=sys.stderr)
    if not options.no_wait and not inviting.delivered(device, member.keys.signing_public):
        print("it is offline; 'covey run' delivers the invitation later", file=sys.stderr)
    return 0


def _replace(device: Device, options: argparse.Namespace) -> int:
    """Invite a device that replaces a member: by a file where a folder is named, else by a code."""
    group = device.pick_group(options.group)
    member = pick_member(group, options.replace)
    options.capability = options.capability or list(member.capabilities)
    if options.output is None:
        return invite_device(device, options, replaces=member)
    (path,) = prepare(
        device,
        [(group, member.label or member.name)],
        Path(options.output),
        read_us("--valid", options.valid or _VALID, ADMISSION_US, _SHORTEST_US),
        capabilities=tuple(options.capability),
        operators=options.operator,
        commands=tuple(options.commands),
        replaces=member,
    )
    if options.json:
        print_json({"label": member.label, "file": str(path), "group_id": group.group_id.hex()})
    else:
        print(f"on the new device: covey join {path.name}", file=sys.stderr)
        print(f"once it has joined, {labelled_name(member.name, member.label)} is removed", file=sys.stderr)
    return 0


def _cancel(device: Device, name: str, *, as_json: bool) -> int:
    """Cancel a file's invite, or every unused one: codes, URIs, files, and invitations of members."""
    cancelled = inviting.cancel_all(device) if name == EVERY else cancel_prepared(device, name)
    if as_json:
        print_json({"cancelled": cancelled})
    else:
        print(f"cancelled: {cancelled}")
    return 0
