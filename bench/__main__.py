"""`./dev bench [NAME ...]`: run the benchmarks, one after another."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from types import ModuleType

_BY_SUBJECT = {
    "messages": {
        "throughput": "readings/s and bytes on the wire, against paho with JSON",
        "small": "messages/s of 200 bytes, one by one, against raw paho and a crash-safe bridge",
        "collector": "a collector with thousands of devices: CPU per message, p99, against raw paho into a file",
        "recovery": "seconds from the network's return to an empty queue, after outages of 15, 60 and 600 s",
        "outage": "envelopes sent per backlogged message, after an hour without the relay or the recipient",
        "outbox": "bytes written to disk per message; start with a million queued messages",
        "link": "bytes a day and per reading by settings, TLS, TCP and IP included; bytes written to storage",
        "day": "a day of a real agent with a budget in ten minutes: bytes by the kernel's count and by its own",
        "metered": "bytes a day of a link, by the kernel's count of it, next to a bridge of mosquitto and to paho",
        "hostile": "hostile envelopes/s that an agent survives, and p99 of honest messages meanwhile",
    },
    "tables": {
        "ingest": "readings/s from a vault into Spark, against Spark's own JSON and Parquet sources",
        "vault_growth": "cost of a micro-batch as a vault grows to 100,000 segments and 100,000 devices",
        "table_growth": "cost of a micro-batch for the driver after 1,000 and after 1,000,000 of them",
        "device_day": "bytes read for one device's day among 20,000, from unsorted and from sorted tables",
    },
    "groups": {
        "manifests": "size and accept time of group manifests; a merge against a perfect broadcast",
        "history": "accepting 10,000 operations of 100 authors; catching up, against git fetch",
        "reconcile": "overhead in bytes to reconcile two histories of 100,000 with 100 differences each, against git",
        "checkpoint": "bytes of a checkpoint of 1,000 settings, against JSON",
        "history_idle": "memory and bytes written by an idle agent, with and without a history",
        "catch_up": "p99 of readings to the vault during a catch-up of 10,000 operations, against none",
        "rebuild": "rebuilding a node after a failed commit: 1,000 members, a million queued messages",
    },
    "fleet": {
        "orders": "seconds from covey order run to its result, against request and response with paho",
        "fanout": "seconds until 1,000 members have executed and reported one order, against paho",
        "plan": "seconds from covey order run --fleet to the last of 1,000 results, in ten groups",
        "hundred_thousand": "an order, a bad release and a lost laptop in 127 groups of 800 devices: counts, seconds",
        "releases": "seconds to begin, continue and look at a release in 127 groups of 100 devices; memory",
        "page": "the fleet's page with 10,000 and 100,000 devices in Chromium: first paint, live, bytes, memory",
    },
    "files": {
        "content": "MB/s of a file from one agent to another through a broker, against paho with the same bytes",
        "mailbox": "envelopes/s that a mailbox stores, against a bare table; memory and a PULL at a million",
        "content_nearby": "MB/s of a file from a LAN peer, against curl; memory; savings of a patch",
        "content_sites": "30 MB to 20 agents at two sites: bytes on each uplink, against curl on each agent",
        "content_beside": "p99 of readings to the vault during file transfers through the broker, against none",
    },
    "boards": {
        "board": "readings/s and bytes on a serial line, against JSON; cost of an envelope on a board",
        "serial": "bytes/s of 200-byte messages on a serial line, against the bare line; a million frames with faults",
        "crypto_instructions": "Cortex-M0 instructions and heap of the boards' cryptography, with viper and without",
    },
    "agent": {
        "footprint": "start, import time and memory of the agent, against paho alone",
        "size": "installed size, start to READY, idle memory and CPU, with 0 and 1,000,000 queued messages",
    },
}
"""Folders of this package, and what their benchmarks measure."""

BENCHES = {name: what for benches in _BY_SUBJECT.values() for name, what in benches.items()}


def bench(name: str) -> ModuleType:
    """Return the module of a benchmark."""
    subject = next(subject for subject, benches in _BY_SUBJECT.items() if name in benches)
    return import_module(f"bench.{subject}.{name}")


def main() -> int:
    """Run the named benchmarks, or all; return the worst exit code."""
    parser = argparse.ArgumentParser(
        prog="./dev bench",
        description="\n".join(f"{name:<20} {what}" for name, what in BENCHES.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", choices=[*BENCHES, []], metavar="NAME", help="default: all")
    parser.add_argument("--short", action="store_true", help="size, footprint, metered: only what is quick")
    parser.add_argument("--json", action="store_true", help="metered: print one JSON document")
    parser.add_argument("--smoke", action="store_true", help="check that they run: small sizes, no meaningful figures")
    options = parser.parse_args()
    if options.smoke:
        from bench.smoke import share_commands, shrink

        share_commands()
    worst = 0
    for name in options.names or BENCHES:
        if not options.json:
            print(f"\n== {name}: {BENCHES[name]}", flush=True)
        module = bench(name)
        arguments = shrink(name, module) if options.smoke else {}
        if options.short and name in {"size", "footprint", "metered"}:
            arguments = {"short": True}
        if name == "metered":
            arguments["as_json"] = options.json
        worst = max(worst, module.main(**arguments) or 0)
    return worst


if __name__ == "__main__":
    sys.exit(main())
