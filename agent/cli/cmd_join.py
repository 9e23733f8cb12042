"""`covey join URI`: ask the inviter to let this device in."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace

from agent.cli.cmd_group import as_json, show
from agent.cli.session import Session, open_session, print_json, read_text_file, wait_until
from agent.core.ids import printable
from agent.core.pairing import Invite

_LAST_WORDS_S = 3.0
"""The inviter's acknowledgement of our request follows its answer; without it the request would go again later."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("uri", help="what 'covey invite' printed; - reads it from stdin, out of the process list")
    parser.add_argument(
        "--timeout", type=float, default=600.0, metavar="SECONDS", help="how long to wait (default 600)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    """Queue the request, durably, and wait for the group's manifest."""
    invite = Invite.from_uri((read_text_file("-") if options.uri == "-" else options.uri).strip())
    with open_session(options) as opened:
        session = _with_relay(opened, invite)
        with session.store.transaction():
            session.node.request_join(invite, session.config.label, session.now())
        print("asking to join ...", file=sys.stderr)

        def joined() -> bool:
            session.node.membership.refresh()
            return any(group.group_id == invite.group_id for group in session.node.membership.groups())

        if not wait_until(session, joined, options.timeout):
            print("error: no answer yet", file=sys.stderr)
            print("hint: the request is kept; 'covey run' goes on with it while the invite is valid", file=sys.stderr)
            return 1
        wait_until(session, lambda: session.store.totals()[0] == 0, _LAST_WORDS_S)
        manifest = session.node.membership.group(invite.group_id)
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
