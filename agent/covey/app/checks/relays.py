"""Checks of relays.

Local: the relay that this device serves is up, and no other device signs in with the same identity.
Online: each relay is reachable, accepts this device, and isolates other devices' topics.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from covey.adapters.services import hint_for
from covey.app.checks.findings import Examined, Level, Seen, error, ok, warning
from covey.app.device.relay_access import other_places
from covey.app.loop.link_windows import RESTING
from covey.app.loop.takeovers import CopySign, seen_cuts
from covey.app.wording import budget_text, count, duration, size_text
from covey.core.ids import inbox_name, labelled_name
from covey.core.link.budget import link_budget
from covey.core.link.reported_cost import Outlook, outlook
from covey.errors import RelayError

if TYPE_CHECKING:
    from covey.adapters.keys.relay_credential import RelayAccount
    from covey.config.schema import RelayConfig


def served_relay(device: Examined) -> Iterator[Seen]:
    """Whether this device's relay is served, and accepts exactly the accounts in its files."""
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
            "the relay of this device is not running",
            hint_for("covey-relay", "sudo systemctl start {unit}", "covey relay serve"),
        )
    elif address := lost_address(device.folder, url):
        yield error(
            f"devices use {address} for this relay, which is no longer an address of this machine",
            "reserve that address in the router; or: covey relay serve --host NAME, and on devices of other networks: "
            "covey relay set mqtts://NAME",
        )
    elif place.in_force():
        yield ok(f"served as {url}, with the accounts in its files in force")
    else:
        yield error(
            "the broker has not been reloaded: the last accounts added or removed are not in force yet",
            "this usually takes a second; if it stays: "
            + hint_for("covey-relay", "sudo systemctl restart {unit}", "stop and start 'covey relay serve'"),
        )


def recovery(device: Examined) -> Iterator[Seen]:
    """Whether the last recovery file of this hub contains its keys, operators and groups of today."""
    from covey.app.relays.recovery import last_saved

    found = last_saved(device.opened)
    if found is None:
        yield Level.SKIPPED, "no recovery file was written here (covey hub save FILE)", ""
        return
    age = duration(max(0, device.clock.wall_us() - found.saved_at_us) // 1_000_000)
    if found.changed:
        yield warning(
            f"the recovery file of {age} ago is outdated: changed since: {', '.join(found.changed)}",
            "write a new one, and delete the old one: covey hub save FILE",
        )
    else:
        yield ok(f"the recovery file of {age} ago has the keys, operators and groups of today")


def relay_accounts(device: Examined) -> Iterator[Seen]:
    """Whether each member has an account where this device makes them, and who else has one."""
    from covey.adapters.broker.authority import PasswordAuthority, authority
    from covey.adapters.broker.mosquitto_passwords import device_accounts
    from covey.app.loop.member_accounts import connecting

    held = authority(device.configuration.config.broker, device.folder.path, device.identity)
    if not isinstance(held, PasswordAuthority):
        yield Level.SKIPPED, "this device makes no relay accounts", ""
        return
    found = device_accounts(held.password_file)
    own = device.opened.node.identity.signing_public
    members = {inbox_name(each) for each in [*connecting(device.opened.node.groups.joined()), own]}
    invited = {
        inbox_name(name) for row in device.opened.store.pairings.all() for name in (row.secret_hash, row.joiner) if name
    }
    lacking, others = sorted(members - found), sorted(found - members - invited)
    if lacking:
        yield warning(
            f"{_counted(lacking, 'member')} without an account", "if it uses this relay: covey broker enrol KEY"
        )
    if others:
        yield warning(
            f"{_counted(others, 'account')} of devices in no group of this device",
            "if no device is waiting to join with it: covey broker remove KEY",
        )
    if not lacking and not others:
        yield ok(f"{count(len(found), 'account')}, one for each member")


def _counted(names: list[str], noun: str) -> str:
    shown = ", ".join(name[:8] for name in names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")
    return f"{count(len(names), noun)} ({shown})"


_NAMED = 3
_COPY = "switch one off; on the copy stop the agent, move its state folder away, and join again: covey join"


def duplicate(device: Examined) -> Iterator[Seen]:
    """Whether connections to the relay are cut off repeatedly, and by what, as far as known."""
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


def budget(device: Examined) -> Iterator[Seen]:
    """Whether this device's link stays within its budget."""
    link = device.status.link
    if link.left_bytes is None:
        yield Level.SKIPPED, "this device has no budget for its link", ""
        return
    hint = "see what costs most: covey link; then lengthen sensors.interval_seconds or telemetry.batch_seconds"
    plan = link_budget(link.budget)
    assert plan is not None
    lasts = outlook(plan, sum((link.month if plan.monthly else link.today).values()), link.forecast_bytes)
    if lasts is Outlook.USED_UP:
        yield error(f"the budget of {link.budget} is used up: messages wait", hint)
    elif lasts is Outlook.EARLY:
        yield warning(f"{link.budget} will be used up early: forecast {size_text(link.forecast_bytes or 0)}", hint)
    elif lasts is Outlook.LOW:
        yield warning(f"{size_text(link.left_bytes)} left of {link.budget}", hint)
    else:
        yield ok(f"{size_text(link.left_bytes)} left of {link.budget}")


_WORDS = {
    Outlook.USED_UP: "has used up the budget of its link",
    Outlook.EARLY: "will use up the budget of its link early",
    Outlook.LOW: "has less than a tenth left of the budget of its link",
}
_NAMED = 8
"""Devices that are named, each with the state of its budget; the others are counted."""


def budgets(device: Examined) -> Iterator[Seen]:
    """Whether the links of other devices stay within the budgets that these report."""
    found = [each for each in device.status.members if each.cost is not None and each.cost.outlook is not None]
    if not found:
        yield Level.SKIPPED, "no other device reports a budget of its link", ""
        return
    short = [each for each in found if each.cost is not None and each.cost.outlook != Outlook.FINE.value]
    for each in short[:_NAMED]:
        assert each.cost is not None
        named = budget_text(each.cost.budget_bytes or 0, each.cost.period)
        forecast = "" if each.cost.forecast_bytes is None else f", forecast {size_text(each.cost.forecast_bytes)}"
        what = _WORDS[Outlook(each.cost.outlook)]
        yield warning(f"{labelled_name(each.device, each.label)} {what}, {named}{forecast}", "on it: covey link plan")
    if len(short) > _NAMED:
        yield warning(f"and {count(len(short) - _NAMED, 'more device')} with little left", "covey fleet --only budget")
    if not short:
        yield ok(f"the budget of {count(len(found), 'other device')} lasts")


_CERTIFICATE_DAYS = 30
"""A gateway that is away for a month must still trust the relay when it is back."""


def relay(device: Examined) -> Iterator[Seen]:
    """Each relay: reachable, and who it says it is, for longer than the longest outage."""
    from covey.adapters.keys.relay_credential import accounts

    for account in accounts(device.folder, device.configuration.config, device.identity):
        try:
            yield from _reached(account, device.clock.wall_us())
        except RelayError:
            url = _found_elsewhere(account, device.configuration.config.relay)
            if not url:
                raise
            yield warning(
                f"{account.name} does not answer; the agent uses {url}, which has the same authority",
                f"to keep that: covey relay set {url}",
            )


def _found_elsewhere(account: RelayAccount, relay: RelayConfig) -> str:
    """Return the URL of another place at which a relay answers; empty if there is none."""
    from covey.adapters.broker.own_relay import connect

    find = other_places(account, relay)
    for host, port in find() if find is not None else []:
        url = f"mqtts://[{host}]:{port}" if ":" in host else f"mqtts://{host}:{port}"
        with suppress(RelayError):
            connect(url, account.ca_file, account.client, allow_tls12=account.allow_tls12)
            return url
    return ""


def _reached(account: RelayAccount, now_us: int) -> Iterator[Seen]:
    from covey.adapters.broker.own_relay import connect
    from covey.adapters.mqtt.settings import exposes_password

    reached = connect(account.url, account.ca_file, account.client, allow_tls12=account.allow_tls12)
    if exposes_password(account.url):
        yield warning(
            f"{reached.address} has no TLS: anyone on the network can read the password and see who communicates",
            "enable TLS at the broker, then: covey relay set mqtts://HOST",
        )
    if reached.certificate_ends_at is None:
        yield ok(f"{reached.address} answers")
        return
    days = int((reached.certificate_ends_at - now_us / 1e6) // 86_400)
    line = f"{reached.address} answers with {reached.protocol}; its certificate ends in {days} days"
    if days < _CERTIFICATE_DAYS:
        yield warning(line, "renew it early: gateways that were offline must still trust it")
    else:
        yield ok(line)


def credential(device: Examined) -> Iterator[Seen]:
    """Whether each relay accepts this device: checked only without an agent, which it would disconnect."""
    lock = None if device.folder.locks.agent_runs() else device.folder.locks.relay()
    if lock is None:
        yield from _signed_in(device)
        return
    from covey.adapters.broker.own_relay import sign_in
    from covey.app.device.relay_access import make_relays

    try:
        relays = make_relays(device.folder, device.configuration.config, device.identity)
        for relay in relays:
            up = sign_in(relay)
            which = "the relay" if len(relays) == 1 else relay.name
            yield ok(f"{which} accepts this device, messages up to {up.maximum_payload} bytes")
    finally:
        os.close(lock)


def _signed_in(device: Examined) -> Iterator[Seen]:
    for relay in device.status.relays:
        where = f" at {relay.url}" if device.configuration.config.relay.also else ""
        if relay.noted == "up":
            yield ok(f"the agent is connected{where}, for {duration(relay.seconds)}")
        elif relay.noted == RESTING:
            yield ok(f"the agent is resting{where}, for {duration(relay.seconds)}: link.connect")
        else:
            line = (
                f"the agent is not connected{where}, for {duration(relay.seconds)}: {relay.noted or 'never connected'}"
            )
            yield error(line, hint_for("covey", "see: journalctl -u {unit}", "see the agent's log"))


def acl(device: Examined) -> Iterator[Seen]:
    """Whether this device can read messages to other devices: checked only without an agent, which it would
    disconnect."""
    from covey.adapters.keys.relay_credential import accounts

    lock = None if device.folder.locks.agent_runs() else device.folder.locks.relay()
    if lock is None:
        yield (
            Level.SKIPPED,
            "not tested: the test would disconnect the agent",
            hint_for(
                "covey",
                "to test: sudo systemctl stop {unit}, then covey check",
                "to test: stop the agent, then covey check",
            ),
        )
        return
    try:
        for account in accounts(device.folder, device.configuration.config, device.identity):
            for level, line, hint in _openings(account, inbox_name(device.identity.signing_public)):
                yield level, f"{account.name}: {line}" if device.configuration.config.relay.also else line, hint
    finally:
        os.close(lock)


def _openings(account: RelayAccount, user_name: str) -> Iterator[Seen]:
    from covey.adapters.broker.own_relay import look_around

    openings = look_around(
        account.url, account.ca_file, account.client, user_name, account.password, allow_tls12=account.allow_tls12
    )
    rules = "give the broker the rules of 'covey system-files broker_conf/mosquitto/acl', then run 'covey broker check'"
    if openings.overhears:
        yield error("this device can read messages to other devices", rules)
    if not openings.writes:
        yield error("the broker does not allow this device to send to others", rules)
    if openings.statistics:
        yield warning("the broker shows this device its statistics ($SYS)", rules)
    if openings.writes and not openings.overhears and not openings.statistics:
        yield ok("this device can send to others, and can read only its own inbox")
