"""Sizes with which each benchmark only shows that it runs: `./dev bench --smoke`. Its figures then mean nothing."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from bench.agent.size import Patience
from demo.device import Device
from tests import warm_covey

_SIZES: dict[str, dict[str, Any]] = {
    "throughput": {"_OURS": 6_000, "_PEER": 300, "_BATCHES": 10, "_ROUNDS": 1},
    "small": {"_OURS": 300, "_CALLS": 80, "_PAHO": 300, "_BRIDGED": 100, "_ROUNDS": 1},
    "collector": {"_DEVICES": 40, "_EVERY_S": 2.0, "_SECONDS": 2.0, "_PAHO": 300},
    "recovery": {"_OUTAGES_S": (15,), "_ROUNDS": 1},
    "outage": {"_OUTAGE_S": 60, "_QUEUE": 300, "_ROUNDS": 1},
    "ingest": {"WARM_UP": 0, "SEGMENT_READINGS": 10_000},
    "table_growth": {"HISTORIES": (100, 200), "BATCHES": 6},
    "vault_growth": {"SEGMENTS": (1_000, 2_000), "TRIES": 3, "DEVICES": 1_000, "BATCHES": 5, "BOARDS": 100, "BOOTS": 8},
    "device_day": {"DEVICES": 100, "BATCHES": 4, "FILE_BYTES": 4_000},
    "manifests": {"_REPEATS": 1, "_RIVALS": (8, 16), "_SPLIT_MEMBERS": 6},
    "history": {"_OPERATIONS": 300, "_AUTHORS": 5},
    "reconcile": {"_OPERATIONS": 300, "_DIFFERENCES": 5},
    "checkpoint": {"_KEYS": 20},
    "history_idle": {"_OPERATIONS": 200, "_QUIET_S": 1.0, "_PARTS_S": 0.2, "_LOOKS_S": 1.0, "_EVERY_S": 0.2},
    "catch_up": {"_OPERATIONS": 300, "_READINGS": 10},
    "orders": {"_TIMES": 2},
    "hundred_thousand": {
        "_GROUPS": 3,
        "_DEVICES": 4,
        "_ASLEEP_EVERY": 13,
        "_BAD_EVERY": 2,
        "_WAVES": "1,3,50%,100%",
        "_PATIENCE_US": 10_000,
    },
    "releases": {"_GROUPS": 3, "_DEVICES": 4, "_LOOKS": 1},
    "plan": {"_GROUPS": 2, "_DEVICES": 3, "_ROUNDS": 1, "_PROCESSES": 1},
    "fanout": {"_MEMBERS": 8, "_PROCESSES": 1},
    "content": {"_SIZE": 1_000_000, "_ROUNDS": 1},
    "mailbox": {"_BLOBS": 20_000, "_PULLS": 5},
    "content_nearby": {
        "_SIZE": 1_000_000,
        "_ROUNDS": 1,
        "MAXIMUM_CONTENT_BYTES": 1_000_000,
        "_ARCHIVED": "agent/covey/core",
    },
    "content_sites": {"_SIZE": 1_000_000, "_SITES": 1, "_AGENTS": 2},
    "content_beside": {"_SIZE": 1_000_000, "_READINGS": 10},
    "board": {"_SAMPLES": 30, "_ROUNDS": 1},
    "serial": {"_MESSAGES": 60, "_ROUNDS": 1, "_FRAMES": 3_000},
    "crypto_instructions": {"IMPLEMENTATIONS": ("viper",)},
    "link": {"_SETTLE_S": 5.0, "_MEASURE_S": 10.0},
    "day": {"_HOURS": 2, "_FAST": 600.0},
    "metered": {"_SHORT_S": {"_SETTLE_S": 5.0, "_MEASURE_S": 30.0, "_WINDOWS_S": 120.0, "_OTHERS_S": 12.0}},
    "outbox": {"_MESSAGES": 1_000, "_LONG": 10_000},
    "hostile": {"_SECONDS": 0.5, "_PREPARED": 600},
    "rebuild": {"_MEMBERS": 20, "_QUEUED": 1_000, "_TIMES": 3},
    "page": {"_DEVICES": (200,), "_LANDINGS": 2},
    "footprint": {"_QUEUED": 200, "_LOOKS": 1, "_QUIET_LOOKS": 1},
    "size": {"_QUEUED": 1_000, "_COMMIT": 100, "_STARTS": 1, "SHORT": Patience(0.2, 0.1, 3)},
}
_ARGUMENTS: dict[str, dict[str, Any]] = {
    "ingest": {"readings_in_all": 10_000, "rounds": 1},
    "size": {"short": True},
    "metered": {"short": True},
    "crypto_instructions": {"short": True},
}


def shrink(name: str, bench: ModuleType) -> dict[str, Any]:
    """Make a benchmark's sizes small; return what its `main` is to be told."""
    for constant, size in _SIZES[name].items():
        assert hasattr(bench, constant), f"{bench.__name__} has no {constant} any more"
        setattr(bench, constant, size)
    return _ARGUMENTS.get(name, {})


def share_commands() -> None:
    """Have the commands of devices fork from the server of the test that has started this, if one has.

    A benchmark runs a dozen of them to set itself up; starting an interpreter for each costs more than the rest.
    """
    if warm_covey.is_shared():
        in_new_interpreter = Device._run  # noqa: SLF001 - as `Gateway` does by inheritance

        def run(device: Device, words: Sequence[str], feed: bytes) -> subprocess.CompletedProcess[str]:
            if device.own_environment:  # of a library for the clock, which a process that is forked does not load
                return in_new_interpreter(device, words, feed)
            return warm_covey.run(words, feed)

        Device._run = run  # type: ignore[assignment, method-assign]  # noqa: SLF001
