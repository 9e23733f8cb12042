"""A release over 127 groups of 100 devices: seconds to begin it, to give its second wave and to look at it; memory.

The operator's device is one process without an agent; what devices report is put into its state. The peer is a look at
a release in one group of 100 devices.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from covey.app.device.device import Device
from covey.app.orders.fleet import Scope, administered
from covey.app.orders.release_reports import release
from covey.app.orders.releases import PlannedPart, begin, go_on, plan_release, read_waves
from tests.operated_fleet import OperatedFleet
from tests.sealed import sealed

_GROUPS, _DEVICES, _LOOKS = 127, 100, 5
_HOUR_US = 3_600_000_000


def main() -> None:
    """Measure and print."""
    print(f"seconds; looks: p50 of {_LOOKS}")
    for groups in (1, _GROUPS):
        with TemporaryDirectory() as folder:
            _measure(OperatedFleet(Path(folder), groups, _DEVICES, phone=False), groups)
    most_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{'most memory, with the making of the fleet':<42} {most_mib:>7.0f} MiB")


def _measure(fleet: OperatedFleet, groups: int) -> None:
    with fleet.open(fleet.laptop) as device:
        found: list[str] = []
        _print(f"begin a release in {groups} groups", _seconds(lambda: found.append(_begin(device))))
    fleet.report(fleet.laptop)
    with fleet.open(fleet.laptop) as device:
        scope = administered(device)
        _print("  give its second wave", _seconds(lambda: go_on(device, scope, found[0])))
        looks = [_seconds(lambda: release(device, scope, found[0])) for _ in range(_LOOKS)]
        _print("  look at it", median(looks))


def _begin(device: Device) -> str:
    scope = Scope(administered(device), fleet=True)
    plans = plan_release(device, scope.groups, "all", read_waves("1,1%,10%,100%"), 2, _HOUR_US, 0, 0)
    parts = [PlannedPart(group, plan, sealed(device, group)) for group, plan in plans]
    return begin(device, scope, "install", parts, "all").id


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _print(what: str, seconds: float) -> None:
    print(f"{what:<40} {seconds:>9.3f}", flush=True)


if __name__ == "__main__":
    main()
