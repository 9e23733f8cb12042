"""Checks of relays: the relay that this device serves is up, and no other device signs in with the same identity."""

from __future__ import annotations

import os
from collections.abc import Iterator

from covey.app.checks.findings import Examined, Level, Seen, error, ok, warning
from covey.app.loop.takeovers import CopySign, seen_cuts
from covey.app.wording import count


def served_relay(device: Examined) -> Iterator[Seen]:
    """Whether a relay of one's own is served, and lets in whom its files let in."""
    from covey.app.relays.serving_relay import lost_address, served

    place = served(device.folder)
    if not place.exists:
        yield Level.SKIPPED, "this device serves no relay", ""
        return
    url = device.configuration.config.relay.url
    lock = device.folder.locks.served_relay()
    if lock is not None:
        os.close(lock)
        yield error(
            "the relay of this device is not running", "sudo systemctl start covey-relay, or: covey relay serve"
        )
    elif address := lost_address(device.folder, url):
        yield error(
            f"devices use {address} for this relay, which is no longer an address of this machine",
            "reserve that address in the router; or: covey relay serve --host NAME, and on each device: "
            "covey relay set mqtts://NAME",
        )
    elif place.in_force():
        yield ok(f"served as {url}, with the accounts in its files in force")
    else:
        yield error(
            "the broker has not been reloaded: the last accounts added or removed are not in force yet",
            "this usually takes a second; if it stays: sudo systemctl restart covey-relay",
        )


def relay_accounts(device: Examined) -> Iterator[Seen]:
    """Whether each member has an account where this device makes them, and who else has one."""
    from covey.adapters.broker.authority import PasswordAuthority, authority
    from covey.adapters.broker.mosquitto_passwords import device_accounts
    from covey.app.loop.member_accounts import connecting

    held = authority(device.configuration.config.broker, device.folder.path)
    if not isinstance(held, PasswordAuthority):
        yield Level.SKIPPED, "this device makes no relay accounts", ""
        return
    found = device_accounts(held.password_file)
    own = device.opened.node.identity.signing_public
    members = {each.hex() for each in connecting(device.opened.node.groups.joined())} | {own.hex()}
    invited = {
        name.hex() for row in device.opened.store.pairings.all() for name in (row.secret_hash, row.joiner) if name
    }
    lacking, others = sorted(members - found), sorted(found - members - invited)
    if lacking:
        yield warning(
            f"{_counted(lacking, 'member')} without an account", "if it uses this relay: covey broker enrol KEY"
        )
    if others:
        yield warning(
            f"{_counted(others, 'account')} of devices in no group of this device",
            "if nobody waits to join with it: covey broker remove KEY",
        )
    if not lacking and not others:
        yield ok(f"{count(len(found), 'account')}, one for each member")


def _counted(names: list[str], noun: str) -> str:
    shown = ", ".join(name[:8] for name in names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")
    return f"{count(len(names), noun)} ({shown})"


_NAMED = 3
_COPY = "switch one off; on the copy stop the agent, move its state folder away, and join again: covey join"


def duplicate(device: Examined) -> Iterator[Seen]:
    """Whether connections to the relay are cut off again and again, and by whom, as far as that is known."""
    seen = seen_cuts(device.opened.store.conditions, device.clock.wall_us())
    if seen.sign is CopySign.CERTAIN:
        yield error(f"another device signs in as this one, last {seen.age_s} s ago", f"its card was copied: {_COPY}")
    elif seen.sign is CopySign.POSSIBLE:
        yield warning(
            f"the connection to the relay was lost {seen.times} times in a row soon after it came up, "
            f"last {seen.age_s} s ago",
            f"the connection is bad, or a copy of this machine's card signs in as this one: {_COPY}",
        )
    else:
        yield ok("no other device signs in as this one")
