"""`./dev bench [NAME ...]`: run the benchmarks, one after another."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from types import ModuleType

from bench.smoke import shrink

_BY_SUBJECT = {
    "messages": {
        "throughput": "readings/s and bytes on the wire, against paho with JSON",
        "small": "messages/s of 200 bytes, one by one, against raw paho and a crash-safe bridge of two brokers",
        "collector": "a collector of thousands of devices: CPU for a message, p99, against raw paho that writes a file",
        "recovery": "seconds from the network's return to an empty queue, after 15, 60 and 600 s without it",
        "outage": "envelopes sent for each message of a backlog, after an hour without the relay or the recipient",
        "outbox": "bytes written to disk for each message's life; a start with a million messages waiting",
        "hostile": "hostile envelopes/s that an agent survives, and an honest message's p99 beside them",
    },
    "tables": {
        "ingest": "readings/s from a vault into Spark, against Spark's own JSON and Parquet sources",
        "vault_growth": "what a micro-batch costs as a vault grows to 100,000 segments, and its devices to 100,000",
        "table_growth": "what a micro-batch costs the driver after 1,000 and after 1,000,000 of them",
        "device_day": "bytes read for one device's day among 20,000, from tables as they came and in order",
    },
    "groups": {
        "manifests": "size and accept time of group manifests; a merge against a perfect broadcast",
        "history": "taking 10,000 operations of 100 authors; catching up, against git fetch",
        "reconcile": "bytes that two histories of 100,000 with 100 differences a side cost beyond these, against git",
        "checkpoint": "bytes of a checkpoint of 1,000 settings, against the same as JSON",
        "history_idle": "memory and bytes written of an agent while nothing happens, with a history against without",
        "catch_up": "a reading's way to the vault beside a catch-up of 10,000 operations, p99, against alone",
        "rebuild": "a node made anew after a failed commit: 1,000 members, a million messages queued",
    },
    "fleet": {
        "orders": "seconds from covey order run to its result, against a request and its response by paho",
        "fanout": "seconds until 1,000 members have done one order and said so, against paho that asks as many",
        "page": "the fleet's page with 10,000 and 100,000 devices in Chromium: first paint, live, bytes, memory",
    },
    "files": {
        "content": "MB/s of a file from one agent to another through a broker, against paho with the same bytes",
        "mailbox": "envelopes/s that a mailbox keeps, against a bare table; its memory and a PULL at a million",
        "content_nearby": "MB/s of a file from a peer of one network, against curl; memory; what a patch saves",
        "content_sites": "30 MB to 20 agents at two sites: what each site's uplink carries, against curl by each",
        "content_beside": "a reading's way to the vault beside files through the broker, p99, against alone",
    },
    "boards": {
        "board": "readings/s and bytes on a serial line, against JSON; what an envelope costs a board",
        "serial": "bytes/s of 200-byte messages on a serial line, against the bare line; a million frames with faults",
        "crypto_instructions": "Cortex-M0 instructions and heap of the boards' cryptography, with viper and without",
    },
    "agent": {
        "footprint": "start, import time and memory of the agent, against paho alone",
        "size": "installed size, start to READY, idle memory and CPU, with nothing and with 1,000,000 messages queued",
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
    parser.add_argument("--short", action="store_true", help="size, footprint: only what takes seconds")
    parser.add_argument("--smoke", action="store_true", help="show that they run: small sizes, no figures to quote")
    options = parser.parse_args()
    worst = 0
    for name in options.names or BENCHES:
        print(f"\n== {name}: {BENCHES[name]}", flush=True)
        module = bench(name)
        arguments = shrink(name, module) if options.smoke else {}
        if options.short and name in {"size", "footprint"}:
            arguments = {"short": True}
        worst = max(worst, module.main(**arguments) or 0)
    return worst


if __name__ == "__main__":
    sys.exit(main())
