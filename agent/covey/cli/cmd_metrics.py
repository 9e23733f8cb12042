"""`covey metrics`: the store's numbers as OpenMetrics, for any collector that reads text.

1. Labels are drawn from sets that this code knows: error codes and reasons of its own, message classes, this device's
   groups. Nothing that a peer chose.
2. Every reason of a counter is there from the first scrape, at 0, so that an alert on its growth works.
3. Reading them does not disturb the agent, and works while none runs.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from covey import errors
from covey.app.device import Device
from covey.cli.cmd_status import relay_conditions
from covey.cli.device_options import answering_agent, open_device
from covey.cli.grammar import Parser
from covey.core.presence.status import CONDITIONS, condition

Sample = tuple[dict[str, str], float]


@dataclass(frozen=True, slots=True)
class Family:
    """One metric with its samples; a counter's name stands without `_total`."""

    name: str
    kind: str
    meaning: str
    samples: list[Sample]
    unit: str = ""


def add_arguments(parser: Parser) -> None:
    """Add this command's options."""
    parser.add_argument(
        "--textfile", metavar="PATH", help="replace this file, for node_exporter's textfile collector; ends in .prom"
    )


def run(options: argparse.Namespace) -> int:
    """Print OpenMetrics, or write the older format that node_exporter reads."""
    if options.textfile and not options.textfile.endswith(".prom"):
        raise errors.UsageError("--textfile must end in .prom", hint="node_exporter reads no other name")
    form = "prometheus" if options.textfile else "openmetrics"
    agent = answering_agent(options)
    if agent is not None:
        text = agent.metrics(form)
    else:
        with open_device(options) as device:
            text = FORMS[form](list(families(device)))
    if options.textfile:
        from covey.adapters.files import replace_durably

        replace_durably(Path(options.textfile).absolute(), text.encode(), mode=0o644)
    else:
        print(text, end="")
    return 0


def families(device: Device) -> Iterator[Family]:
    """Yield every metric of this device."""
    yield from _about_the_agent(device)
    yield from _about_the_outbox(device)
    yield from _about_groups(device)
    counters = device.store.counters.values()
    for reason, meaning in (
        ("dropped", "Envelopes that broke a rule, and messages that the outbox had no room or time for"),
        ("quarantined", "Authentic messages that could not be used"),
    ):
        noted = {name.removeprefix(f"{reason}_") for name in counters if name.startswith(f"{reason}_")}
        codes = sorted({each.code for each in _remote_errors()} | {errors.OutboxFullError.code} | noted)
        yield Family(
            f"covey_{reason}",
            "counter",
            meaning,
            [({"reason": code}, counters.get(f"{reason}_{code}", 0)) for code in codes],
        )
    for name, meaning in (
        ("duplicates", "Messages that came again"),
        ("refused_full", "Messages that found no room here and stay with their sender"),
        ("lost_messages", "Messages that senders have admitted to have lost"),
        ("published_messages", "Telemetry batches queued"),
        ("published_readings", "Readings queued"),
        ("landed_messages", "Messages that this collector has put into its vault"),
    ):
        yield Family(f"covey_{name}", "counter", meaning, [({}, counters.get(name, 0))])


def _about_the_agent(device: Device) -> Iterator[Family]:
    from importlib.metadata import version

    running = device.folder.agent_runs()
    now_us = device.clock.wall_us()
    state, since_us = device.store.conditions.values().get("relay", ("", now_us))
    up = running and state == "up"
    outage_s = max(0, now_us - since_us) // 1_000_000 if running and state not in {"", "up"} else 0
    offline_s = device.store.counters.values().get("offline_seconds", 0) + outage_s
    yield Family("covey_build", "info", "What runs here", [({"version": version("covey")}, 1)])
    yield Family("covey_agent_running", "gauge", "1 while an agent runs on this state", [({}, running)])
    yield Family("covey_relay_connected", "gauge", "1 while a relay accepts the agent", [({}, up)])
    relays: list[Sample] = [
        ({"rank": str(rank)}, running and relay_state == "up")
        for rank, (_, (relay_state, _)) in enumerate(
            relay_conditions(device.config, device.store.conditions.values(), now_us), start=1
        )
    ]
    yield Family("covey_relay_up", "gauge", "1 while the relay of this rank in the settings accepts the agent", relays)
    yield Family(
        "covey_offline_seconds", "counter", "Time that the agent ran without a relay", [({}, offline_s)], "seconds"
    )
    yield Family(
        "covey_clock_synchronized",
        "gauge",
        "1 while a time source disciplines the clock",
        [({}, device.clock.synchronised())],
    )


def _about_the_outbox(device: Device) -> Iterator[Family]:
    messages, _ = device.store.outbox.totals()
    queues = device.store.outbox.queues()
    oldest = min((each.oldest_at_us for each in queues if each.oldest_at_us is not None), default=None)
    age_s = 0.0 if oldest is None else max(0, device.clock.wall_us() - oldest) / 1e6
    maximum = device.config.outbox.maximum_bytes
    yield Family("covey_outbox_messages", "gauge", "Messages whose recipient has not answered", [({}, messages)])
    sizes: list[Sample] = [
        ({"class": kind.name.lower()}, size) for kind, size in device.store.outbox.bytes_by_class().items()
    ]
    yield Family("covey_outbox_bytes", "gauge", "Their bytes, by class", sizes, "bytes")
    yield Family("covey_outbox_maximum_bytes", "gauge", "Where new ones are refused", [({}, maximum)], "bytes")
    yield Family("covey_outbox_oldest_age_seconds", "gauge", "Age of the oldest", [({}, age_s)], "seconds")
    waiting = sum(each.queued > 0 for each in queues)
    yield Family("covey_outbox_recipients", "gauge", "Recipients for whom something waits", [({}, waiting)])
    delivered = sum(each.acknowledged for each in queues)
    yield Family("covey_delivered", "counter", "Messages that their recipient has acknowledged", [({}, delivered)])
    landing = device.store.landing.size()
    yield Family("covey_landing_bytes", "gauge", "Telemetry on its way into the vault", [({}, landing)], "bytes")


def _about_groups(device: Device) -> Iterator[Family]:
    groups = [({"group": each.group_id.hex()[:8]}, each) for each in device.node.membership.groups()]
    versions: list[Sample] = [(label, each.version) for label, each in groups]
    members: list[Sample] = [(label, len(each.members)) for label, each in groups]
    yield Family("covey_manifest_version", "gauge", "Version of the group manifest held", versions)
    yield Family("covey_group_members", "gauge", "Members of the group", members)
    heard, told, now_us = device.store.presence.last_seen(), device.store.presence.of_peers(), device.clock.wall_us()
    others = {member.keys.signing_public for _, group in groups for member in group.members}
    others.discard(device.node.identity.signing_public)
    states = Counter(condition(told.get(key), heard.get(key), now_us)[0] for key in others)
    presences: list[Sample] = [({"presence": each}, states[each]) for each in CONDITIONS]
    yield Family("covey_devices", "gauge", "Other members, by what they tell of their presence", presences)


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
