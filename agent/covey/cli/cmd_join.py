"""`covey join CODE` or `URI`: ask the inviter to let this device in."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from covey.app.pairing import Meeting, check_relay_named, join_by_ceremony, lacks_account
from covey.app.session import Session, open_session, print_json, read_text_file, wait_until
from covey.cli.cmd_group import as_json, show
from covey.core.ids import printable
from covey.core.pairing.invite import URI_SCHEME, Invite
from covey.core.pairing.messages import Password
from covey.errors import PairingError

_LAST_WORDS_S = 3.0
"""The inviter's acknowledgement of our request follows its answer; without it the request would go again later."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument(
        "code", help="what 'covey invite' shows: the code or the URI; - reads it from stdin, out of the process list"
    )
    parser.add_argument("--relay", metavar="URL", help="with a code: mqtts://HOST[:PORT], where both devices meet")
    parser.add_argument(
        "--ca-file", "--ca", metavar="FILE", help="PEM file of the authority that signed the relay's certificate"
    )
    parser.add_argument(
        "--enrolment-password-file", metavar="FILE", help="file with the relay's shared enrolment password, if changed"
    )
    parser.add_argument(
        "--timeout", type=float, default=600.0, metavar="SECONDS", help="how long to wait (default 600)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON, one document a line")


def run(options: argparse.Namespace) -> int:
    """Queue the request, durably, and wait for the group's manifest."""
    text = (read_text_file("-") if options.code == "-" else options.code).strip()
    with open_session(options) as opened:
        session, group_id = _ask(opened, text, options)
        return wait_for_group(session, group_id, options)


def _ask(session: Session, text: str, options: argparse.Namespace) -> tuple[Session, bytes]:
    """Make the request durable, after a ceremony where one is needed; return the session as it then is."""
    meeting, invite = _read(session, text, options)
    if meeting is not None:
        print("looking for the other device ...", file=sys.stderr)
        try:
            invite = join_by_ceremony(session, meeting, as_json=options.json).invite
        except PairingError as error:
            if options.json:
                print_json({"ended": error.code})
            raise
        return replace(session, config=session.folder.config(), fresh_account=True), invite.group_id
    assert invite is not None
    session = _with_relay(session, invite)
    with session.store.transaction():
        session.node.request_join(invite, session.config.label, session.now())
    return session, invite.group_id


def _read(session: Session, text: str, options: argparse.Namespace) -> tuple[Meeting | None, Invite | None]:
    """Return where to meet the inviter, or the invite that needs no meeting.

    Raises:
        LocalError: it is neither code nor invite.
        ConfigurationError: no relay is named.
    """
    named = options.relay or session.config.relay.url
    ca_file = options.ca_file or session.config.relay.ca_file
    authorities = Path(ca_file) if ca_file else None
    if not text.startswith(URI_SCHEME):
        from covey.adapters.word_list import typed_code

        code = typed_code(text)
        url = check_relay_named(named)
        password = (Password.CODE, code.password)
        return Meeting(url, authorities, options.enrolment_password_file, code.number, password), None
    invite = Invite.from_uri(text)
    if invite.rendezvous is None or not lacks_account(session):
        return None, invite
    url = check_relay_named(named or invite.relay_url)
    password = (Password.URI, invite.secret)
    secret = options.enrolment_password_file
    return Meeting(url, authorities, secret, invite.rendezvous, password, invite.inviter), None


def wait_for_group(session: Session, group_id: bytes, options: argparse.Namespace) -> int:
    """Wait until the inviter has let this device in; show the group."""
    if lacks_account(session):
        print("note: without an account at the relay nothing goes: see 'covey relay'", file=sys.stderr)
    print("asking to join ...", file=sys.stderr)

    def joined() -> bool:
        session.node.membership.refresh()
        return any(group.group_id == group_id for group in session.node.membership.groups())

    if not wait_until(session, joined, options.timeout):
        print("error: no answer yet", file=sys.stderr)
        print("hint: the request is kept; 'covey run' goes on with it while the invite is valid", file=sys.stderr)
        return 1
    wait_until(session, lambda: session.store.totals()[0] == 0, _LAST_WORDS_S)
    manifest = session.node.membership.group(group_id)
    if options.json:
        print_json(as_json(manifest))
    else:
        show(manifest, session.node.identity.signing_public)
    return 0


def _with_relay(session: Session, invite: Invite) -> Session:
    """Take the invite's relay where this device has none."""
    if session.config.relay.url or not invite.relay_url:
        return session
    session.folder.change_config({"relay.url": invite.relay_url})
    print(f"using the invite's relay {printable(invite.relay_url)}", file=sys.stderr)
    return replace(session, config=session.folder.config())
