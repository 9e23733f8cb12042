"""30 MB to twenty agents at two sites: what each site's uplink carries, against curl by each of them from one server.

An uplink is a TCP tap before the broker, one for each site, that counts both directions of all its agents, whatever
they say; the peer's is one before Python's own server. The agents of a site name each other's ports on loopback. All
begin at once. Ours is sealed, verified chunk by chunk, and on the disk.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.files.content import offered
from broker_conf.mosquitto import Broker
from broker_conf.mosquitto.broker import free_port
from covey.adapters.state_folder import StateFolder
from covey.app.content.content import ask_for_file
from covey.app.content.offering import put_file
from covey.app.device.device import open_device
from demo.device import Device
from demo.wire_tap import WireTap

_SIZE = 30_000_000
_SITES = 2
_AGENTS = 10
"""At each site."""

_PATIENCE_S = 600.0
_LOOK_S = 0.05


@dataclass
class _Site:
    """Agents behind one uplink."""

    name: str
    agents: list[Device]


def main() -> None:
    """Measure and print."""
    with TemporaryDirectory() as name, Broker(Path(name) / "broker") as broker:
        folder, tap = Path(name), WireTap(broker.port)
        hub = Device(folder, "hub")
        sites = [
            _Site(f"site {each}", [Device(folder, f"site-{each}-{number}") for number in range(_AGENTS)])
            for each in range(_SITES)
        ]
        try:
            _set_up(broker, tap, hub, sites)
            original = folder / "file"
            original.write_bytes(random.Random(1).randbytes(_SIZE))
            seconds, uplinks, by_relay = _ours(tap, hub, sites, original)
            peer_seconds, peer_bytes = _by_curl(folder, original, _AGENTS)
        finally:
            for each in (hub, *(agent for site in sites for agent in site.agents)):
                each.end()
            tap.close()
    print(f"a file of {_SIZE / 1e6:.1f} MB to {_AGENTS} agents at each of {_SITES} sites")
    for site, number, asked in zip(sites, uplinks, by_relay, strict=True):
        print(f"{site.name}: its uplink carries so many times the file   {number / _SIZE:>10.3f}, {asked} asked")
    print(f"curl: an uplink carries so many times the file             {peer_bytes / _SIZE:>10.3f}")
    print(f"seconds until all have it                                  {seconds:>10.1f}")
    print(f"seconds until all of one site have it by curl              {peer_seconds:>10.1f}")


def _set_up(broker: Broker, tap: WireTap, hub: Device, sites: list[_Site]) -> None:
    hub.set_up(broker)
    hub.ok("group", "create")
    hub.start("run", "--no-sensors")
    for site in sites:
        url = f"mqtt://127.0.0.1:{tap.port_for(site.name)}"
        ports = [free_port() for _ in site.agents]
        for agent, own in zip(site.agents, ports, strict=True):
            agent.set_up(broker, url)
            agent.ok("join", "-", feed=hub.ok("invite", "--no-wait"))
            agent.ok("config", "set", "content.lan", "true")
            agent.ok("config", "set", "content.lan_listen", f"127.0.0.1:{own}")
            agent.ok(
                "config", "set", "content.lan_peers", ",".join(f"127.0.0.1:{each}" for each in ports if each != own)
            )
            agent.start("run", "--no-sensors")


def _ours(tap: WireTap, hub: Device, sites: list[_Site], original: Path) -> tuple[float, list[int], list[int]]:
    """Return the seconds until all have the file, the bytes of each uplink, and how many of each site asked there."""
    with open_device(StateFolder.at(hub.state)) as device:
        put_file(device, device.pick_group(None), original, None, lambda _: None)
    agents = [agent for site in sites for agent in site.agents]
    for agent in agents:
        with open_device(StateFolder.at(agent.state)) as device:
            offered(device, device.pick_group(None), original.name)
    before = [tap.bytes_of(site.name) for site in sites]
    begin = time.perf_counter()
    for agent in agents:
        with open_device(StateFolder.at(agent.state)) as device:
            manifest = device.pick_group(None)
            ask_for_file(device, manifest, offered(device, manifest, original.name))
    waiting = agents
    while waiting:
        waiting = [each for each in waiting if "bytes is here" not in each.log.read_text()]
        time.sleep(_LOOK_S)
        if time.perf_counter() > begin + _PATIENCE_S:
            raise TimeoutError(f"{len(waiting)} agents have no file")
    seconds = time.perf_counter() - begin
    uplinks = [tap.bytes_of(site.name) - earlier for site, earlier in zip(sites, before, strict=True)]
    asked = [sum("came from 127.0.0.1" not in each.log.read_text() for each in site.agents) for site in sites]
    return seconds, uplinks, asked


def _by_curl(folder: Path, original: Path, agents: int) -> tuple[float, int]:
    """Return the seconds in which so many fetch a file by curl at once, and the bytes that their uplink carries."""
    port = free_port()
    words = [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1", "--directory", str(folder)]
    server = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    tap = WireTap(port)
    try:
        url = f"http://127.0.0.1:{tap.port_for('curl')}/{original.name}"
        curl = [shutil.which("curl") or "curl", "--silent", "--fail", "--retry", "20", "--retry-all-errors"]
        subprocess.run([*curl, "--range", "0-0", "--output", str(folder / "first"), url], check=True)
        before, begin = tap.bytes_of("curl"), time.perf_counter()
        with ThreadPoolExecutor(agents) as at_once:
            names = [str(folder / f"by curl {number}") for number in range(agents)]
            [*at_once.map(lambda name: subprocess.run([*curl, "--output", name, url], check=True), names)]
        return time.perf_counter() - begin, tap.bytes_of("curl") - before
    finally:
        tap.close()
        server.kill()
        server.wait()


if __name__ == "__main__":
    main()
