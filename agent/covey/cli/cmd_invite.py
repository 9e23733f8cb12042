"""`covey invite`: show a code, a QR code and a URI that let one device join, and wait for it."""

from __future__ import annotations

import argparse
import secrets
import select
import sys
from dataclasses import replace
from importlib.util import find_spec

from covey.app.pairing import has_authority, pairing_error
from covey.app.session import Session, open_session, print_json, wait_until
from covey.core.ids import device_name, printable
from covey.core.pairing.ceremony import Ending
from covey.core.pairing.invite import Invite
from covey.core.pairing.records import Pairing
from covey.errors import ConfigurationError, UsageError
from covey.limits import INVITE_US, RENDEZVOUS_NUMBERS

_DELIVERY_S = 10.0
"""How long a command waits for what follows to be acknowledged."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("--group", metavar="ID", help="beginning of the group's id, where there are several")
    parser.add_argument("--capability", action="append", default=[], help="what the joiner does, e.g. collector")
    parser.add_argument(
        "--to", metavar="DEVICE", help="invite a member of another group of ours; a person there answers"
    )
    parser.add_argument("--yes", action="store_true", help="accept whoever knows the code, without asking")
    parser.add_argument("--no-wait", action="store_true", help="do not wait for the joiner; an agent must be running")
    parser.add_argument("--no-qr", action="store_true", help="show no QR code")
    parser.add_argument("--cancel", action="store_true", help="end every invite that is open")
    parser.add_argument("--json", action="store_true", help="print JSON, one document a line")


def run(options: argparse.Namespace) -> int:
    """Open an invite; single use, ten minutes."""
    with open_session(options) as session:
        if options.cancel:
            return _cancel_all(session, as_json=options.json)
        if not session.config.relay.url:
            raise ConfigurationError("no relay is set", hint="covey relay --url mqtt://HOST")
        if options.to is not None:
            return _invite_member(session, options)
        invite, code = _open(session, options)
        _print(invite, code, options)
        if options.no_wait:
            return 0
        try:
            return _Dialogue(session, invite, options).run()
        except KeyboardInterrupt:
            _cancel(session, invite.secret_hash)
            raise


def _open(session: Session, options: argparse.Namespace) -> tuple[Invite, str | None]:
    """Make the invite, and the code where somebody can accept who comes by it."""
    group_id = session.pick_group(options.group).group_id
    with session.store.transaction():
        now_us = session.now().wall_us
        taken = [each.number for each in session.store.pairings() if each.ended is None]
        free = [number for number in range(1, RENDEZVOUS_NUMBERS + 1) if number not in taken]
        number = secrets.choice(free)
        code = _draw_code(number) if options.yes or not options.no_wait else None
        invite = session.node.membership.invite(group_id, tuple(options.capability), session.config.relay.url, now_us)
        if has_authority(session.config):  # who has no account at the relay gets one at the rendezvous
            invite = replace(invite, rendezvous=number)
        if code is not None or invite.rendezvous is not None:
            accepts = True if options.yes else None
            session.store.open_pairing(
                Pairing(invite.secret_hash, number, code, invite.secret, invite.expires_at_us, accepts), now_us
            )
    return invite, code


def _draw_code(number: int) -> str | None:
    """Draw a code; without the packages for it, the URI has to do."""
    from covey.adapters.word_list import draw_code

    if find_spec("spake2") is None or find_spec("mnemonic") is None:
        print("note: no code, but a URI: codes need the packages of 'covey[pairing]'", file=sys.stderr)
        return None
    return str(draw_code(secrets.randbelow, number))


def _print(invite: Invite, code: str | None, options: argparse.Namespace) -> None:
    """Print the URI on stdout, as scripts want it, and the rest where a person reads."""
    uri = invite.to_uri()
    if options.json:
        shown = {"uri": uri, "expires_at_us": invite.expires_at_us}
        print_json(shown if code is None else {"code": code, **shown})
        sys.stdout.flush()
        return
    if sys.stderr.isatty() and not options.no_qr:
        from covey.adapters.qr_code import terminal_qr

        print(terminal_qr(uri), file=sys.stderr)
    print(uri, flush=True)
    if code is not None:
        print(f"code: {code}", file=sys.stderr)
        print(f"on the new device: covey join {code} --relay {invite.relay_url}", file=sys.stderr)
    if not options.no_wait:
        print("valid for ten minutes, for one device; waiting for it to join ...", file=sys.stderr, flush=True)


class _Dialogue:
    """Waits for the joiner, and asks the person about one who comes by the code. Nothing here waits for a key."""

    def __init__(self, session: Session, invite: Invite, options: argparse.Namespace) -> None:
        self._session = session
        self._invite = invite
        self._options = options
        self._introduced = False
        self._decided = options.yes

    def run(self) -> int:
        """Wait, then say what became of it."""
        wait_until(self._session, self._step, INVITE_US / 1e6)
        joiner = self._used_by()
        if joiner is not None:
            wait_until(self._session, lambda: not waits_for(self._session, joiner), _DELIVERY_S)
            if self._options.json:
                print_json({"joined": device_name(joiner)})
            print(f"joined: {device_name(joiner)}", file=sys.stderr)
            return 0
        row = self._row()
        if row is not None and row.accepts and row.ended is None:
            print("accepted, and not here yet: it has an hour to come", file=sys.stderr)
            return 1
        if row is not None and row.ended not in {None, Ending.EXPIRED.value}:
            if self._options.json:
                print_json({"ended": row.ended})
            raise pairing_error(Ending(row.ended))
        _cancel(self._session, self._invite.secret_hash)
        print("nobody joined", file=sys.stderr)
        return 1

    def _step(self) -> bool:
        row = self._row()
        if self._used_by() is not None or (row is not None and row.ended is not None):
            return True
        if row is not None and row.joiner is not None:
            if not self._introduced:
                self._introduced = True
                self._introduce(row)
            if not self._decided and select.select([sys.stdin], [], [], 0)[0]:
                self._decided = True
                answer = sys.stdin.readline()
                if not answer:
                    print("nobody is here to answer; --yes accepts without asking", file=sys.stderr)
                accepts = answer.strip().lower() in {"y", "yes"}
                with self._session.store.transaction():
                    self._session.store.decide_pairing(self._invite.secret_hash, accepts)
        return False

    def _introduce(self, row: Pairing) -> None:
        from covey.adapters.word_list import words_at

        assert row.joiner is not None
        words = words_at(row.verifier)
        name = device_name(row.joiner)
        if self._options.json:
            print_json({"joiner": name, "label": row.label, "verifier": words, "lacks_account": row.lacks_account})
            sys.stdout.flush()
        print(f"the other device: {f'{name} {printable(row.label)}'.strip()}", file=sys.stderr)
        print(f"verifier words:   {' '.join(words)}", file=sys.stderr)
        if row.lacks_account and not has_authority(self._session.config):
            print(
                "note: it has no account at the relay, and this device cannot make one (broker.password_file): "
                f"make one for {row.joiner.hex()}",
                file=sys.stderr,
            )
        if not self._decided:
            print("are they the same there? let it in? [y/N] ", end="", file=sys.stderr, flush=True)

    def _row(self) -> Pairing | None:
        return next((each for each in self._session.store.pairings() if self._is_ours(each.secret_hash)), None)

    def _used_by(self) -> bytes | None:
        return next((each.used_by for each in self._session.store.invites() if self._is_ours(each.secret_hash)), None)

    def _is_ours(self, secret_hash: bytes) -> bool:
        return secret_hash == self._invite.secret_hash


def waits_for(session: Session, recipient: bytes) -> bool:
    """Say whether anything waits for a device."""
    return any(queue.recipient == recipient and queue.queued for queue in session.store.queues())


def _invite_member(session: Session, options: argparse.Namespace) -> int:
    """Send an invitation to a member of another group of ours."""
    group_id = session.pick_group(options.group).group_id
    found = {
        member.keys.signing_public: member
        for group in session.node.membership.groups()
        for member in group.members
        if options.to in {member.name, member.label}
        and member.keys.signing_public != session.node.identity.signing_public
    }
    if len(found) != 1:
        raise UsageError(
            f"{len(found)} devices of our groups are called '{printable(options.to)}'",
            hint="'covey group members' has the names",
        )
    ((key, member),) = found.items()
    with session.store.transaction():
        session.node.invite_member(group_id, key, tuple(options.capability), session.now())
    waits = f"{member.name} {printable(member.label)}".strip()
    if options.json:
        print_json({"invited": member.name, "group_id": group_id.hex()})
    else:
        print(f"invited {waits}; a person there answers with 'covey requests'", file=sys.stderr)
    if not options.no_wait and not wait_until(session, lambda: not waits_for(session, key), _DELIVERY_S):
        print("it is not here at the moment; 'covey run' goes on with it", file=sys.stderr)
    return 0


def _cancel(session: Session, secret_hash: bytes) -> None:
    with session.store.transaction():
        session.store.end_pairing(secret_hash, Ending.CANCELLED.value)
        session.store.cancel_invite(secret_hash)


def _cancel_all(session: Session, *, as_json: bool) -> int:
    """End every invite that nobody has used: codes, URIs, and invitations of members."""
    with session.store.transaction():
        unused = [each.secret_hash for each in session.store.invites() if each.used_by is None]
        for secret_hash in unused:
            session.store.end_pairing(secret_hash, Ending.CANCELLED.value)
            session.store.cancel_invite(secret_hash)
    if as_json:
        print_json({"cancelled": len(unused)})
    else:
        print(f"cancelled: {len(unused)}")
    return 0
