"""A device's numbers as OpenMetrics text, from its status; also as a file for node_exporter's textfile collector.

1. Labels are drawn from sets that this code knows: error codes and reasons of its own, message classes, this device's
   groups, its owner's names of sensors, and members' keys. No words that a peer chose.
2. Every reason of a counter is there from the first scrape, at 0, so that an alert on its growth works.
3. Reading them does not disturb the agent, and works while none runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from covey import errors
from covey.adapters.files import replace_durably
from covey.adapters.sqlite.content import DAMAGED_FILES
from covey.app.checks.documents import Status
from covey.app.content.status import NEARBY_BYTES, NEARBY_FILES
from covey.app.device.storage_writes import DATABASE_COUNTER, WRITTEN_COUNTER
from covey.app.documents import to_json
from covey.app.loop.link_windows import RESTING
from covey.core.actions.results import IN_WORDS
from covey.core.orders.attempts import CODES
from covey.core.presence.status import CONDITIONS
from covey.core.receiving.outcome import UNFORESEEN
from covey.core.telemetry.drops import Drop
from covey.errors import UsageError

if TYPE_CHECKING:
    from covey.app.telemetry.doors import DoorStatus

Sample = tuple[dict[str, str], float]


@dataclass(frozen=True, slots=True)
class Family:
    """One metric with its samples; a counter's name stands without `_total`."""

    name: str
    kind: str
    meaning: str
    samples: list[Sample]
    unit: str = ""


def metrics_of(status: Status, form: str, doors: Sequence[DoorStatus] = ()) -> str:
    """Return every metric of a device and its doors, as text in one of `FORMS`."""
    return FORMS[form]([*families(status), *_about_doors(doors)])


def _about_doors(doors: Sequence[DoorStatus]) -> Iterator[Family]:
    if not doors:
        return
    up: list[Sample] = [
        ({"door": each.name}, each.runs and bool(each.messages) and not each.attempts) for each in doors
    ]
    yield Family("covey_door_up", "gauge", "1 while a door's receiver accepts readings", up)
    sent: list[Sample] = [({"door": each.name}, each.readings) for each in doors]
    yield Family("covey_door_readings", "counter", "Readings that a door's receiver accepted", sent)
    behind: list[Sample] = [({"door": each.name}, each.behind) for each in doors]
    yield Family("covey_door_behind_segments", "gauge", "Vault segments that a door has not forwarded yet", behind)
    gaps: list[Sample] = [({"door": each.name}, each.gaps) for each in doors]
    yield Family("covey_door_gaps", "counter", "Parts of the vault that a door skipped", gaps)
    dropped: list[Sample] = [
        ({"door": each.name, "reason": reason}, each.dropped.get(reason, 0)) for each in doors for reason in Drop
    ]
    yield Family("covey_door_dropped", "counter", "Readings that a door dropped or truncated, by reason", dropped)


def families(status: Status) -> Iterator[Family]:
    """Yield every metric of a device."""
    yield from _about_the_agent(status)
    sensors: list[Sample] = [({"sensor": each.name}, each.up and status.running) for each in status.sensors]
    yield Family("covey_sensor_up", "gauge", "1 while a configured sensor delivers all its readings", sensors)
    ages: list[Sample] = [
        ({"sensor": each.name}, each.last_reading_seconds)
        for each in status.sensors
        if each.last_reading_seconds is not None
    ]
    yield Family("covey_sensor_last_reading_seconds", "gauge", "Age of a sensor's last reading", ages, "seconds")
    dropped: list[Sample] = [
        ({"sensor": each.name, "reason": reason}, each.dropped.get(reason, 0))
        for each in status.sensors
        for reason in Drop
    ]
    yield Family(
        "covey_sensor_dropped", "counter", "Readings of a sensor dropped or given another time, by reason", dropped
    )
    alarms: list[Sample] = [({}, len(status.alarms))]
    yield Family("covey_series_in_alarm", "gauge", "Series of this device in alarm", alarms)
    yield from _about_the_link(status)
    yield from _about_the_outbox(status)
    yield from _about_groups(status)
    if status.mailbox is not None:
        yield Family("covey_mailbox_blobs", "gauge", "Envelopes stored for other devices", [({}, status.mailbox.blobs)])
        yield Family("covey_mailbox_bytes", "gauge", "Their bytes", [({}, status.mailbox.bytes)], "bytes")
        yield Family(
            "covey_mailbox_maximum_bytes",
            "gauge",
            "Size limit of the mailbox",
            [({}, status.mailbox.maximum_bytes)],
            "bytes",
        )
    yield from _about_content(status)
    counters = status.counters
    for reason, meaning in (
        ("dropped", "Envelopes that broke a rule, and messages that did not fit the outbox or expired"),
        ("quarantined", "Authentic messages that could not be used, or sent"),
    ):
        noted = {name.removeprefix(f"{reason}_") for name in counters if name.startswith(f"{reason}_")}
        codes = sorted({each.code for each in _remote_errors()} | {errors.OutboxFullError.code, UNFORESEEN} | noted)
        yield Family(
            f"covey_{reason}",
            "counter",
            meaning,
            [({"reason": code}, counters.get(f"{reason}_{code}", 0)) for code in codes],
        )
    yield from _about_orders(counters)
    yield Family(
        "covey_written_bytes",
        "counter",
        "Bytes that the agent has written to storage, as Linux counts them in pages of 4 KiB",
        [({}, counters.get(WRITTEN_COUNTER, 0))],
        "bytes",
    )
    yield Family(
        "covey_written_database_bytes",
        "counter",
        "Of these, the bytes that the agent's loop has written to the state database",
        [({}, counters.get(DATABASE_COUNTER, 0))],
        "bytes",
    )
    for name, meaning in (
        ("duplicates", "Duplicate messages"),
        ("refused_full", "Messages refused for lack of space; they stay with their sender"),
        ("pulls_unanswered", "Requests for manifests over the rate limit"),
        ("not_understood", "Messages that older recipients quarantined because they do not support them"),
        ("lost_messages", "Messages that senders reported as lost"),
        ("thinned_messages", "Telemetry batches that a full outbox replaced by summaries"),
        ("thinned_readings", "Readings in these batches"),
        ("published_messages", "Telemetry batches queued"),
        ("published_readings", "Readings queued"),
        ("published_alarms", "Readings queued as alarms"),
        ("suppressed_alarms", "Alarms beyond the bound of their series, queued as ordinary readings"),
        ("published_times_replaced", "Readings with an impossible time, which got the time of arrival"),
        ("landed_messages", "Messages that this collector stored in its vault"),
        ("damaged_segments", "Segments of its vault that this collector found damaged, and no copy had"),
        ("restored_segments", "Segments of its vault that this collector restored from a copy"),
    ):
        yield Family(f"covey_{name}", "counter", meaning, [({}, counters.get(name, 0))])


def _about_content(status: Status) -> Iterator[Family]:
    content = status.content
    if content is None:
        return
    states: list[Sample] = [
        ({"state": "here"}, content.here),
        ({"state": "wanted"}, content.wanted),
        ({"state": "wrong"}, content.wrong),
    ]
    yield Family("covey_content_files", "gauge", "Files of groups, by local state", states)
    yield Family("covey_content_bytes", "gauge", "Size of local files", [({}, content.here_bytes)], "bytes")
    yield Family(
        "covey_content_maximum_bytes", "gauge", "Size limit of local files", [({}, content.maximum_bytes)], "bytes"
    )
    if content.peers is not None:
        yield Family("covey_content_peers", "gauge", "Peers on this network", [({}, content.peers)])
    for name, meaning, unit in (
        (NEARBY_FILES, "Files fetched from nearby sources", ""),
        (NEARBY_BYTES, "Their encrypted size", "bytes"),
        (DAMAGED_FILES, "Files that the disk damaged and that were fetched again", ""),
    ):
        yield Family(f"covey_{name}", "counter", meaning, [({}, status.counters.get(name, 0))], unit)


def _about_the_agent(status: Status) -> Iterator[Family]:
    from importlib.metadata import version

    running, relay = status.running, status.relay
    outage_s = relay.seconds if running and relay.noted not in {"", "up", RESTING} else 0
    offline_s = status.counters.get("offline_seconds", 0) + outage_s
    yield Family("covey_build", "info", "Running version", [({"version": version("covey")}, 1)])
    yield Family("covey_agent_running", "gauge", "1 while an agent runs on this state", [({}, running)])
    yield Family("covey_relay_connected", "gauge", "1 while a relay accepts the agent", [({}, relay.up)])
    relays: list[Sample] = [({"rank": str(rank)}, each.up) for rank, each in enumerate(status.relays, start=1)]
    yield Family("covey_relay_up", "gauge", "1 while the relay of this rank in the settings accepts the agent", relays)
    yield Family(
        "covey_offline_seconds",
        "counter",
        "Time that the agent ran without a relay connection",
        [({}, offline_s)],
        "seconds",
    )
    yield Family(
        "covey_clock_synchronized",
        "gauge",
        "1 while a time source disciplines the clock",
        [({}, status.clock_synchronised)],
    )


def _about_the_link(status: Status) -> Iterator[Family]:
    link = status.link
    for name, meaning, counted in (
        ("today", "Cost of the link today (UTC), all headers included", link.today),
        ("month", "Cost of the link this month (UTC), all headers included", link.month),
    ):
        samples: list[Sample] = [({"kind": kind}, size) for kind, size in counted.items()]
        yield Family(f"covey_link_{name}_bytes", "gauge", meaning, samples, "bytes")
    forecast: list[Sample] = [] if link.forecast_bytes is None else [({}, link.forecast_bytes)]
    yield Family("covey_link_forecast_bytes", "gauge", "Cost of the month if it continues as so far", forecast, "bytes")
    left: list[Sample] = [] if link.left_bytes is None else [({}, link.left_bytes)]
    yield Family("covey_link_budget_left_bytes", "gauge", "What is left of the link's budget", left, "bytes")
    costs = [(each.device, each.cost) for each in status.members if each.cost is not None]
    for name, meaning, values in (
        ("today", "Cost of another device's link today (UTC), as it reports", [(d, c.today_bytes) for d, c in costs]),
        ("month", "Cost of another device's link this month (UTC)", [(d, c.month_bytes) for d, c in costs]),
        ("forecast", "Cost of the month if it continues as so far", [(d, c.forecast_bytes) for d, c in costs]),
    ):
        found: list[Sample] = [({"device": device}, size) for device, size in values if size is not None]
        yield Family(f"covey_device_link_{name}_bytes", "gauge", meaning, found, "bytes")
    budgets: list[Sample] = [
        ({"device": device, "period": cost.period}, cost.budget_bytes)
        for device, cost in costs
        if cost.budget_bytes is not None
    ]
    yield Family(
        "covey_device_link_budget_bytes", "gauge", "Budget of another device's link, of each period", budgets, "bytes"
    )


def _about_the_outbox(status: Status) -> Iterator[Family]:
    outbox, queues = status.outbox, status.queues
    yield Family(
        "covey_outbox_messages", "gauge", "Messages that their recipient has not acknowledged", [({}, outbox.messages)]
    )
    sizes: list[Sample] = [({"class": name}, size) for name, size in to_json(outbox.bytes_by_class).items()]
    yield Family("covey_outbox_bytes", "gauge", "Their bytes, by class", sizes, "bytes")
    yield Family(
        "covey_outbox_maximum_bytes", "gauge", "Size limit of the outbox", [({}, outbox.maximum_bytes)], "bytes"
    )
    age_s = (outbox.oldest_us or 0) / 1e6
    yield Family("covey_outbox_oldest_age_seconds", "gauge", "Age of the oldest message", [({}, age_s)], "seconds")
    waiting = sum(each.queued > 0 for each in queues)
    yield Family("covey_outbox_recipients", "gauge", "Recipients with waiting messages", [({}, waiting)])
    delivered = sum(each.acknowledged for each in queues)
    yield Family("covey_delivered", "counter", "Messages acknowledged by their recipient", [({}, delivered)])
    landing = status.landing_bytes
    yield Family(
        "covey_landing_bytes", "gauge", "Telemetry waiting to be stored in the vault", [({}, landing)], "bytes"
    )


def _about_orders(counters: Mapping[str, int]) -> Iterator[Family]:
    done: list[Sample] = [({"outcome": each}, counters.get(f"commands_{each}", 0)) for each in IN_WORDS]
    yield Family("covey_commands", "counter", "Orders to run an action, by result on this device", done)
    tried: list[Sample] = [({"reason": each}, counters.get(f"attempts_{each}", 0)) for each in CODES]
    yield Family("covey_order_attempts", "counter", "Orders refused because their sender is not an operator", tried)


def _about_groups(status: Status) -> Iterator[Family]:
    groups = [({"group": each.group_id[:8]}, each) for each in status.groups]
    versions: list[Sample] = [(label, each.version) for label, each in groups]
    members: list[Sample] = [(label, each.members) for label, each in groups]
    yield Family("covey_manifest_version", "gauge", "Version of the group manifest on this device", versions)
    yield Family("covey_group_members", "gauge", "Members of the group", members)
    operations: list[Sample] = [(label, each.history.operations) for label, each in groups]
    behind: list[Sample] = [(label, len(each.history.others)) for label, each in groups]
    waiting: list[Sample] = [(label, sum(one.waiting for one in each.history.fetching)) for label, each in groups]
    yield Family("covey_history_operations", "gauge", "Operations of the group's history on this device", operations)
    yield Family("covey_history_out_of_step", "gauge", "Members whose history differs", behind)
    yield Family("covey_history_waiting", "gauge", "Operations that wait for earlier ones", waiting)
    states = Counter(each.presence for each in status.members)
    presences: list[Sample] = [({"presence": each}, states[each]) for each in CONDITIONS]
    yield Family("covey_devices", "gauge", "Other members, by presence", presences)


def _remote_errors() -> Iterator[type[errors.RemoteError]]:
    found = errors.RemoteError.__subclasses__()
    while found:
        kind = found.pop()
        found += kind.__subclasses__()
        yield kind


def openmetrics(found: list[Family]) -> str:
    """Return the exposition of OpenMetrics 1.0."""
    lines = []
    for family in found:
        lines.append(f"# TYPE {family.name} {family.kind}")
        if family.unit:
            lines.append(f"# UNIT {family.name} {family.unit}")
        lines.append(f"# HELP {family.name} {family.meaning}.")
        lines += _samples(family)
    return "\n".join([*lines, "# EOF"]) + "\n"


def prometheus(found: list[Family]) -> str:
    """Return the older text format (0.0.4), whose families carry their samples' names and know no `info`."""
    lines = []
    for family in found:
        name = family.name + _SUFFIXES.get(family.kind, "")
        lines.append(f"# HELP {name} {family.meaning}.")
        lines.append(f"# TYPE {name} {'gauge' if family.kind == 'info' else family.kind}")
        lines += _samples(family)
    return "\n".join(lines) + "\n"


FORMS = {"openmetrics": openmetrics, "prometheus": prometheus}
"""Text formats by name."""

_SUFFIXES = {"counter": "_total", "info": "_info"}


def _samples(family: Family) -> Iterator[str]:
    name = family.name + _SUFFIXES.get(family.kind, "")
    for labels, value in family.samples:
        inner = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        shown = f"{value:.3f}" if isinstance(value, float) else str(int(value))
        yield f"{name}{f'{{{inner}}}' if inner else ''} {shown}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def write_metrics(text: str, path: Path) -> None:
    """Replace the file, at once and readable to all.

    Raises:
        UsageError: node_exporter would not read a file of this name.
        StorageError: it cannot be written.
    """
    if path.suffix != ".prom":
        raise UsageError("--textfile must end in .prom", hint="node_exporter reads only such files")
    replace_durably(path, text.encode(), mode=0o644)
