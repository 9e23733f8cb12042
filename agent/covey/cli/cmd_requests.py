"""`covey requests`: list, accept or decline invitations to further groups."""

from __future__ import annotations

import argparse

from covey.app.session import Session, open_session, print_json, print_table
from covey.cli.cmd_join import wait_for_group
from covey.core.ids import device_name, printable
from covey.core.membership.requests import unanswered
from covey.core.pairing.records import GroupRequest
from covey.errors import LocalError, UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("action", nargs="?", default="list", choices=("list", "accept", "decline"), help="what to do")
    parser.add_argument("group", nargs="?", metavar="ID", help="beginning of the group's id, where there are several")
    parser.add_argument(
        "--timeout", type=float, default=600.0, metavar="SECONDS", help="how long to wait for the group"
    )
    parser.add_argument("--no-wait", action="store_true", help="do not wait for the group; an agent must be running")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    """Show what waits, or answer it."""
    with open_session(options) as session:
        requests = unanswered(session.node.membership, session.store, session.now().wall_us)
        if options.action == "list":
            _show(session, requests, as_json=options.json)
            return 0
        request = _pick(requests, options.group)
        if options.action == "decline":
            with session.store.transaction():
                session.store.drop_group_request(request.group_id)
            if options.json:
                print_json({"declined": request.group_id.hex()})
            else:
                print("declined; nobody is told")
            return 0
        with session.store.transaction():
            session.node.accept_request(request, session.config.label, session.now())
        if options.no_wait:
            return 0
        return wait_for_group(session, request.group_id, options)


def _pick(requests: list[GroupRequest], name: str | None) -> GroupRequest:
    """Return the newest invitation to the group that a person means.

    Raises:
        UsageError: there are several groups.
        LocalError: there is none.
    """
    matching = [each for each in requests if each.group_id.hex().startswith(name or "")]
    groups = sorted({each.group_id.hex()[:8] for each in matching})
    if len(groups) > 1:
        raise UsageError(f"which group? {len(groups)} match", hint=f"name one of: {', '.join(groups)}")
    if not matching:
        raise LocalError("no such invitation waits", hint="'covey requests' lists them")
    return matching[-1]


def _show(session: Session, requests: list[GroupRequest], *, as_json: bool) -> None:
    known = {
        member.keys.signing_public: member.label
        for group in session.node.membership.groups()
        for member in group.members
    }
    now_us = session.now().wall_us
    if as_json:
        print_json(
            [
                {
                    "group_id": each.group_id.hex(),
                    "inviter": each.inviter.signing_public.hex(),
                    "label": known.get(each.inviter.signing_public, ""),
                    "received_at_us": each.received_at_us,
                    "expires_at_us": each.expires_at_us,
                }
                for each in requests
            ]
        )
        return
    rows = []
    for each in requests:
        key = each.inviter.signing_public
        hours = (each.expires_at_us - now_us) // 3_600_000_000
        rows.append((each.group_id.hex()[:8], f"{device_name(key)} {printable(known.get(key, ''))}", f"{hours} h"))
    print_table(("GROUP", "INVITED BY", "ENDS IN"), rows)
