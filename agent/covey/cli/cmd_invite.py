"""`covey invite`: show a code, a QR code and a URI that let one device join, and wait for it."""

from __future__ import annotations

import argparse
import select
import sys

from covey.app.device.device import Device
from covey.app.device.relay_access import has_authority
from covey.app.documents import to_json
from covey.app.pairing import inviting
from covey.app.pairing.inviting import InviteEnd, Newcomer, OpenInvitation
from covey.app.pairing.preparing import cancel_prepared
from covey.cli.batch_invites import Batch, batch_options, show_prepared, write_batch
from covey.cli.device_options import open_device
from covey.cli.grammar import Parser, group_option, json_option, refuse_idle
from covey.cli.joining_view import print_operators
from covey.cli.terminal import print_json
from covey.core.ids import labelled_name
from covey.errors import PairingError

EVERY = ""
"""`--cancel` without a label."""


def add_arguments(parser: Parser) -> None:
    """Add this command's options."""
    group_option(parser)
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
    """Open an invite; single use, ten minutes."""
    _check_effects(options)
    with open_device(options) as device:
        if options.list:
            return show_prepared(device, as_json=options.json)
        if options.cancel is not None:
            return _cancel(device, options.cancel, as_json=options.json)
        if options.batch is not None or options.labels is not None:
            return write_batch(device, options.group, _batch(options), as_json=options.json)
        if options.to is not None:
            return _invite_member(device, options)
        return invite_device(device, options)


_OF_FILES = ("output", "label_prefix", "valid", "commands")
_OF_INVITES = ("capability", "operator")
_OF_CODES = ("yes", "no_wait", "no_qr")


def _check_effects(options: argparse.Namespace) -> None:
    """Refuse options that change nothing about what is asked for."""
    for way in ("list", "cancel"):
        if getattr(options, way) not in {None, False}:
            refuse_idle(options, f"--{way}", "group", "to", "batch", "labels", *_OF_FILES, *_OF_INVITES, *_OF_CODES)
    if options.batch is not None or options.labels is not None:
        refuse_idle(options, "--batch" if options.labels is None else "--labels", "to", *_OF_CODES)
        return
    refuse_idle(options, "an invite without --batch or --labels", *_OF_FILES)
    if options.to is not None:
        refuse_idle(options, "--to", "operator", "yes", "no_qr")


def _batch(options: argparse.Namespace) -> Batch:
    """Return what the person says of the files."""
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


def invite_device(device: Device, options: argparse.Namespace, command: str = "covey join") -> int:
    """Open an invite, and wait for who comes by it; `command` is what the new device calls."""
    invitation = inviting.open_invitation(
        device,
        options.group,
        tuple(options.capability),
        accepts_any=options.yes,
        with_code=_wants_code(options),
        operators=options.operator,
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
    """Say whether somebody can accept who comes by a code, and codes can be drawn here."""
    if not options.yes and options.no_wait:
        return False
    if not inviting.codes_can_be_drawn():
        print("note: no code, but a URI: codes need python3-spake2 and python3-mnemonic", file=sys.stderr)
        return False
    return True


def _print(invitation: OpenInvitation, options: argparse.Namespace, command: str) -> None:
    """Print the URI on stdout, as scripts want it, and the rest where a person reads."""
    invite, code = invitation.invite, invitation.code
    uri = invite.to_uri()
    if options.json:
        named = [to_json(each) for each in invitation.operators()]
        shown = {"uri": uri, "id": invite.secret_hash.hex(), "expires_at_us": invite.expires_at_us, "operators": named}
        said = {} if code is None else {"code": code, "join": _said(code, invite.relay_url)}
        print_json({**said, **shown})
        sys.stdout.flush()
        return
    if sys.stderr.isatty() and not options.no_qr:
        print(inviting.qr_code(invite), file=sys.stderr)
    print(uri, flush=True)
    print_operators(invitation.operators())
    if code is not None:
        print(f"code: {code}", file=sys.stderr)
        print(f"on the new device: {command} {_said(code, invite.relay_url)}", file=sys.stderr)
    if not options.no_wait:
        print("valid for ten minutes, for one device; waiting for it to join ...", file=sys.stderr, flush=True)


def _said(code: str, relay_url: str) -> str:
    """Return what follows the command on the new device."""
    return inviting.code_at_relay(code, relay_url) or f"{code} --relay {relay_url}"


class _Dialogue:
    """Waits for the joiner, and asks the person about one who comes by the code. Nothing here waits for a key."""

    def __init__(self, invitation: OpenInvitation, options: argparse.Namespace) -> None:
        self._invitation = invitation
        self._options = options
        self._introduced = False
        self._decided = options.yes

    def run(self) -> int:
        """Wait, then say what became of it."""
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
        words = "nobody joined" if end is InviteEnd.NOBODY else "accepted, and not here yet: it has an hour to come"
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
                print("nobody is here to answer; --yes accepts without asking", file=sys.stderr)
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
                "note: it has no account at the relay, and this device cannot make one (broker.password_file): "
                f"make one for {newcomer.signing_public}",
                file=sys.stderr,
            )
        if not self._decided:
            print("are they the same there? let it in? [y/N] ", end="", file=sys.stderr, flush=True)


def _invite_member(device: Device, options: argparse.Namespace) -> int:
    """Send an invitation to a member of another group of ours."""
    member, group_id = inviting.invite_member(device, options.group, options.to, tuple(options.capability))
    if options.json:
        print_json({"invited": member.name, "group_id": group_id.hex()})
    else:
        waits = labelled_name(member.name, member.label)
        print(f"invited {waits}; a person there answers with 'covey requests'", file=sys.stderr)
    if not options.no_wait and not inviting.delivered(device, member.keys.signing_public):
        print("it is not here at the moment; 'covey run' goes on with it", file=sys.stderr)
    return 0


def _cancel(device: Device, name: str, *, as_json: bool) -> int:
    """End a file's invite, or every one that nobody has used: codes, URIs, files, and invitations of members."""
    cancelled = inviting.cancel_all(device) if name == EVERY else cancel_prepared(device, name)
    if as_json:
        print_json({"cancelled": cancelled})
    else:
        print(f"cancelled: {cancelled}")
    return 0
