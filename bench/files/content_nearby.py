"""A file from one agent to another on one network, against curl from a plain HTTP server; and what patches save.

Ours is verified chunk by chunk, is on the disk and has its whole verified once more when it counts as here; the peer is
`curl` of the same bytes from Python's own server, into a file beside them, which nobody brings to the disk. The patch
is between two versions of this package's sources, as one archive without compression, against the later one compressed.

Memory is that of a file of the largest size: what the agents take more than idle, of all kinds (PSS), and what the two
commands take more of what no file stands behind than for a file of one byte. What they map goes when others need it.
"""

from __future__ import annotations

import io
import random
import shutil
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from bench.files.content import offered
from bench.peak_memory import PeakMemory, memory_of
from broker_conf.mosquitto import Broker
from broker_conf.mosquitto.broker import free_port
from covey.adapters.patches import make_patch
from covey.adapters.state_folder import StateFolder
from covey.app.content.content import fetch_file
from covey.app.content.offering import put_file
from covey.app.device.device import open_device
from covey.limits.content import MAXIMUM_CONTENT_BYTES
from demo.device import COVEY, Device

_SIZE = 100_000_000
_ROUNDS = 5
_PATIENCE_S = 300.0
_COMMITS = 5
"""Between the two versions."""

_ARCHIVED = "agent"
"""The folder of the sources that the patch is of."""


def main() -> None:
    """Measure and print."""
    ours, peers = [], []
    with TemporaryDirectory() as name, Broker(Path(name) / "broker") as broker:
        folder = Path(name)
        hub, shed = _pair(folder, broker)
        try:
            agents, commands = _memory(folder, hub, shed)  # first: of agents that have moved nothing yet
            for number in range(_ROUNDS):
                original = folder / f"file-{number}"
                original.write_bytes(random.Random(number).randbytes(_SIZE))
                ours.append(_fetched(hub, shed, original))
                peers.append(_by_curl(folder, original))
        finally:
            for each in (hub, shed):
                each.end()
        came = shed.log.read_text().count("came from 127.0.0.1")
    ratios = [peer / own for own, peer in zip(ours, peers, strict=True)]
    print(f"a file of {_SIZE / 1e6:.1f} MB from a peer, median of {_ROUNDS}, {came} of them from the peer")
    print(f"MB/s from asking for it to its being here, verified       {_SIZE / 1e6 / median(ours):>10.1f}")
    print(f"MB/s, curl                                                {_SIZE / 1e6 / median(peers):>10.1f}")
    print(f"  ratio, median of {_ROUNDS}                                      {median(ratios):>10.2f}")
    mib = [f"{each / 2**20:.1f}" for each in (*agents, *commands)]
    print(f"MiB (PSS) more than idle for 100 MiB: who gives, who takes {mib[0]:>9}, {mib[1]}")
    print(f"MiB (anonymous) more than for a byte: put, get             {mib[2]:>9}, {mib[3]}")
    _print_patch()


def _memory(folder: Path, hub: Device, shed: Device) -> tuple[list[int], list[int]]:
    """Return what agents and commands take for a file of the largest size, in bytes."""
    small, large = folder / "a byte", folder / "the largest"
    small.write_bytes(bytes(1))
    large.write_bytes(bytes(MAXIMUM_CONTENT_BYTES))
    put_small = _put(hub, shed, small)  # so both agents have begun, and moved nothing yet
    with PeakMemory("Pss", hub.pid, shed.pid) as agents:
        get_small = _peak(shed, "file", "get", small.name, "-o", str(folder / "got a byte"))
        puts = _put(hub, shed, large) - put_small
        gets = _peak(shed, "file", "get", large.name, "-o", str(folder / "got the largest")) - get_small
    return agents.more, [puts, gets]


def _put(hub: Device, shed: Device, original: Path) -> int:
    """Put a file, and wait until it is offered at the other device; return what the command has at most."""
    most = _peak(hub, "file", "put", str(original))
    with open_device(StateFolder.at(shed.state)) as device:
        offered(device, device.pick_group(None), original.name)
    return most


def _peak(device: Device, *words: str) -> int:
    """Run a command, and return what it has at most that no file stands behind."""
    whole = [*COVEY, *words, "--state", str(device.state)]
    command = subprocess.Popen(whole, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    most = 0
    while command.poll() is None:
        most = max(most, memory_of(command.pid, "Anonymous"))
        time.sleep(0.005)
    if command.poll():
        raise RuntimeError(f"covey {' '.join(words[:2])} failed")
    return most


def _pair(folder: Path, broker: Broker) -> tuple[Device, Device]:
    devices, ports = (Device(folder, "hub"), Device(folder, "shed")), (free_port(), free_port())
    for each, own, other in zip(devices, ports, reversed(ports), strict=True):
        each.set_up(broker)
        each.ok("config", "set", "content.lan", "true")
        each.ok("config", "set", "content.lan_listen", f"127.0.0.1:{own}")
        each.ok("config", "set", "content.lan_peers", f"127.0.0.1:{other}")
    devices[0].ok("group", "create")
    devices[0].start("run", "--no-sensors")
    devices[1].ok("join", "-", feed=devices[0].ok("invite", "--no-wait"))
    devices[1].start("run", "--no-sensors")
    return devices


def _fetched(hub: Device, shed: Device, original: Path) -> float:
    with open_device(StateFolder.at(hub.state)) as device:
        put_file(device, device.pick_group(None), original, None, lambda _: None)
    with open_device(StateFolder.at(shed.state)) as device:
        manifest = device.pick_group(None)
        offer = offered(device, manifest, original.name)
        begin = time.perf_counter()
        fetch_file(device, manifest, offer, _PATIENCE_S, lambda _: None)
        return time.perf_counter() - begin


def _by_curl(folder: Path, original: Path) -> float:
    port = free_port()
    words = [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1", "--directory", str(folder)]
    server = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        url, target = f"http://127.0.0.1:{port}/{original.name}", folder / "by curl"
        curl = [shutil.which("curl") or "curl", "--silent", "--fail", "--output", str(target)]
        subprocess.run([*curl, "--retry", "20", "--retry-connrefused", "--retry-delay", "1", f"{url}"], check=True)
        begin = time.perf_counter()
        subprocess.run([*curl, url], check=True)
        return time.perf_counter() - begin
    finally:
        server.kill()
        server.wait()


def _print_patch() -> None:
    import zstandard

    before, after = (_archive(each) for each in (f"HEAD~{_COMMITS}", "HEAD"))
    patch, whole = make_patch(before, after), zstandard.ZstdCompressor(level=19).compress(after)
    print(f"bytes of Covey's sources as one archive, compressed       {len(whole):>10,}")
    print(f"bytes of a patch from {_COMMITS} commits before                    {len(patch):>10,}")
    print(f"  share                                                   {len(patch) / len(whole):>10.2f}")
    print(f"  share of the archive as it is                           {len(patch) / len(after):>10.3f}")


def _archive(commit: str) -> bytes:
    raw = subprocess.run(["git", "archive", "--format=tar", commit, _ARCHIVED], check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(raw)) as archive:
        assert archive.getnames(), "there are sources"
    return raw


if __name__ == "__main__":
    main()
