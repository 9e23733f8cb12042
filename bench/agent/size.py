"""What the agent costs a gateway: on the disk, until it is ready, and while nothing happens.

Memory and CPU by the method that AWS publishes for Greengrass: the median of samples taken every ten seconds during ten
minutes, after five minutes of warming up; `--short` looks for seconds only. An agent counts as ready when it says
READY=1 to its service manager. Queued messages are put straight into the database; the relay is away meanwhile, which
is when messages wait, and idle means that nobody can take them.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from covey.adapters.state_folder import StateFolder
from covey.core.ids import DeviceKey
from covey.core.link.queued import MessageClass
from covey.errors import TransientError
from demo.device import Device
from demo.fleet import Fleet

_TREE = Path(__file__).parents[2]
_QUEUED = 1_000_000
_COMMIT = 10_000
_MESSAGE_BYTES = 300
_ROOM_BYTES = 4 << 30
_STARTS = 5
_READY_S = 60.0
_LOOK_S = 1.0


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to look, in seconds."""

    warm_up: float
    every: float
    samples: int


LONG = Patience(300, 10, 60)
SHORT = Patience(5, 0.5, 20)


@dataclass(frozen=True, slots=True)
class Idle:
    """Medians: memory in MiB, CPU in percent of one core over all the time looked at."""

    rss: float
    pss: float
    cpu: float


def main(*, short: bool = False) -> None:
    """Print the figures, each with what is aimed at."""
    patience = SHORT if short else LONG
    with TemporaryDirectory() as folder:
        place = Path(folder)
        python = Path(sys.executable)
        if not short:
            python = _print_installed(place)
        fleet = Fleet(place / "fleet", agents=1)
        try:
            fleet.set_up(batch_seconds=60, interval_seconds=60)
            fleet.collector.end()
            device = fleet.agents[0]
            _print_running("nothing queued, connected", python, device, patience)
            fleet.broker.kill()
            fill(device.state, _QUEUED, DeviceKey(bytes.fromhex(fleet.collector.author)))
            _print_running(f"{_QUEUED:,} queued, relay away", python, device, patience)
        finally:
            fleet.close()


def _print_installed(place: Path) -> Path:
    """Print what an installation takes; return the interpreter of one without extras."""
    from deb.__main__ import build

    package = build(place, "0.0.0")
    fields = subprocess.run(
        ["dpkg-deb", "--field", str(package), "Installed-Size"], check=True, capture_output=True, text=True
    )
    print(f"Debian package, MiB: file {package.stat().st_size / 2**20:.1f}, installed {int(fields.stdout) / 1024:.1f}")
    sources = place / "sources"
    shutil.copytree(_TREE, sources, ignore=shutil.ignore_patterns(".*", "build", "__pycache__", "*.egg-info", "tests"))
    environment = place / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    pip = [sys.executable, "-m", "pip", "--python", str(environment / "bin/python"), "--quiet"]
    subprocess.run([*pip, "install", "--disable-pip-version-check", str(sources)], check=True)
    size = sum(path.stat().st_size for path in environment.rglob("*") if path.is_file() and not path.is_symlink())
    print(f"virtual environment without extras and pip, MiB      {size / 2**20:>8.1f}")
    return environment / "bin/python"


def _print_running(state: str, python: Path, device: Device, patience: Patience) -> None:
    starts = []
    for _ in range(_STARTS):
        process, seconds = start(python, device.state)
        starts.append(seconds)
        _end(process)
    print(f"{state}: start to READY, s (aim 0.6)   {median(starts):>6.2f}", flush=True)
    process, _ = start(python, device.state)
    try:
        idle = idle_of(process.pid, patience)
    finally:
        _end(process)
    print(f"{state}: PSS / RSS, MiB (aim 28 / 34)  {idle.pss:>6.1f} / {idle.rss:.1f}")
    print(f"{state}: CPU, % (aim 0.3)              {idle.cpu:>6.2f}", flush=True)


def start(python: Path | str, state: Path) -> tuple[subprocess.Popen[bytes], float]:
    """Start `covey run` as a service manager does; return it, and the seconds until it said READY=1.

    Raises:
        TransientError: it ended, or took a minute.
    """
    with TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        address = str(Path(folder) / "notify")
        manager.bind(address)
        manager.settimeout(_LOOK_S)
        begun = time.perf_counter()
        process = subprocess.Popen(
            [str(python), "-m", "covey.cli.main", "run", "--state", str(state)],
            cwd="/",  # so that what is installed runs, and not the tree
            env={**os.environ, "NOTIFY_SOCKET": address},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        said = b""
        while b"READY=1" not in said:
            if process.poll() is not None or time.perf_counter() - begun > _READY_S:
                process.kill()
                raise TransientError(f"the agent on {state} does not become ready")
            with contextlib.suppress(TimeoutError):
                said = manager.recv(4096)
        return process, time.perf_counter() - begun


def _end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    process.wait(timeout=60)


def idle_of(pid: int, patience: Patience) -> Idle:
    """Look at a process that has nothing to do."""
    time.sleep(patience.warm_up)
    begun, ticks = time.monotonic(), _ticks(pid)
    looks = []
    for _ in range(patience.samples):
        time.sleep(patience.every)
        looks.append(_memory(pid))
    seconds = (_ticks(pid) - ticks) / os.sysconf("SC_CLK_TCK")
    cpu = 100 * seconds / (time.monotonic() - begun)
    return Idle(median(rss for rss, _ in looks), median(pss for _, pss in looks), cpu)


def _ticks(pid: int) -> int:
    """Return the CPU time of a process and its threads, user and system."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def _memory(pid: int) -> tuple[float, float]:
    fields = {}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
        name, value, *_ = line.split()
        fields[name] = int(value) / 1024
    return fields["Rss:"], fields["Pss:"]


def fill(state: Path, messages: int, recipient: DeviceKey) -> None:
    """Put messages for one recipient into the outbox, through the store's own calls."""
    folder = StateFolder.at(state)
    folder.configuration.change({"outbox.maximum_bytes": _ROOM_BYTES})
    store = folder.store(folder.configuration.config(), folder.identity())
    message = secrets.token_bytes(_MESSAGE_BYTES)
    try:
        for _ in range(messages // _COMMIT):
            with store.transaction():
                for _ in range(_COMMIT):
                    seq, link_seq = store.outbox.allocate(recipient)
                    store.outbox.queue(
                        recipient, seq, link_seq, MessageClass.TELEMETRY, message, time.time_ns() // 1000
                    )
    finally:
        store.close()


if __name__ == "__main__":
    main()
