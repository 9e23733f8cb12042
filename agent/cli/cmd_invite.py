"""`covey invite`: print a URI that lets one device join, and wait for it."""

from __future__ import annotations

import argparse
import sys

from agent.cli.session import open_session, print_json, wait_until
from agent.core.ids import device_name
from agent.core.limits import INVITE_US
from agent.errors import ConfigurationError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("--group", metavar="ID", help="beginning of the group's id, where there are several")
    parser.add_argument("--capability", action="append", default=[], help="what the joiner does, e.g. collector")
    parser.add_argument("--no-wait", action="store_true", help="do not wait for the joiner; an agent must be running")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    """Open an invite; single use, ten minutes."""
    with open_session(options) as session:
        if not session.config.relay.url:
            raise ConfigurationError("no relay is set", hint="covey relay --url mqtt://HOST")
        group_id = session.pick_group(options.group).group_id
        with session.store.transaction():
            invite = session.node.membership.invite(
                group_id, tuple(options.capability), session.config.relay.url, session.now().wall_us
            )
        uri = invite.to_uri()
        if options.json:
            print_json({"uri": uri, "expires_at_us": invite.expires_at_us})
        else:
            print(uri, flush=True)
        if options.no_wait:
            return 0
        print("valid for ten minutes, for one device; waiting for it to join ...", file=sys.stderr)

        def used_by() -> bytes | None:
            return next(
                (each.used_by for each in session.store.invites() if each.secret_hash == invite.secret_hash), None
            )

        if not wait_until(session, lambda: used_by() is not None, INVITE_US / 1e6):
            print("nobody joined", file=sys.stderr)
            return 1
        joiner = used_by()
        assert joiner is not None
        wait_until(session, lambda: not _waits_for(session.store.queues(), joiner), 10)
        print(f"joined: {device_name(joiner)}", file=sys.stderr)
        return 0


def _waits_for(queues: list, recipient: bytes) -> bool:  # type: ignore[type-arg]
    return any(queue.recipient == recipient and queue.queued for queue in queues)
