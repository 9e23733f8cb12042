"""Networks for benchmarks: namespaces of Linux, joined by lines whose bytes the kernel counts.

A line is a pair of veth devices. What it has carried is what the kernel has counted at the far end of it, less the
Ethernet header of each packet: bytes of IP, as an operator of a mobile network bills them. Nothing that runs in the
namespaces takes part in the count. Segments are not put together by the (virtual) network card, so each has its header,
as on a real line; addresses of neighbours are fixed, so nothing but IP goes.

A line may be slow and lossy: by `tc netem`, or, where the kernel has none, by a program that carries the packets
between two pairs (`_carry`). Needs root.
"""

from __future__ import annotations

import array
import ctypes
import fcntl
import heapq
import os
import random
import select
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

_CLONE_NEWNET = 0x40000000
_SIOCETHTOOL, _ETHTOOL_STXCSUM = 0x8946, 0x17
_ETHERNET_BYTES = 14
_EVERY_PROTOCOL = 3
_PIECE_BYTES = 65_536
_WAIT_S = 0.2
_ADDRESSES = "10.90"
_QUEUE_PACKETS = 1_000
RELAY_ADDRESS = f"{_ADDRESSES}.255.1"
"""Of the namespace that all lines lead to."""


class Namespace:
    """A network namespace whose loopback is up; it ends with this process at the latest."""

    def __init__(self) -> None:
        self._holder = subprocess.Popen(["unshare", "--net", "cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        here = Path("/proc/self/ns/net").readlink()
        while Path(f"/proc/{self.pid}/ns/net").readlink() == here:
            if self._holder.poll() is not None:
                raise OSError("unshare --net was refused")
            time.sleep(0.001)
        self.ip("link", "set", "lo", "up")

    @property
    def pid(self) -> int:
        """A process in it."""
        return self._holder.pid

    def close(self) -> None:
        """End it, once nothing else lives in it."""
        self._holder.communicate()

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Have this thread live in it, and the sockets, threads and processes that it starts meanwhile."""
        home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        there = os.open(f"/proc/{self.pid}/ns/net", os.O_RDONLY)
        try:
            _enter(there)
            yield
        finally:
            _enter(home)
            os.close(there)
            os.close(home)

    def ip(self, *words: str) -> None:
        """Run `ip` in it."""
        with self.entered():
            run("ip", *words)


@dataclass(frozen=True, slots=True)
class Shape:
    """What a line does to each packet, in either direction. Zeros: nothing."""

    delay_ms: float = 0.0
    loss_percent: float = 0.0
    rate_kbit_s: float = 0.0

    def __bool__(self) -> bool:
        """Whether it does anything."""
        return any((self.delay_ms, self.loss_percent, self.rate_kbit_s))

    def faster(self, times: float) -> Shape:
        """Return what looks like this to programs whose clock runs so many times as fast."""
        return Shape(self.delay_ms / times, self.loss_percent, self.rate_kbit_s * times)

    def netem(self) -> list[str]:
        """Return it in the words of tc-netem(8)."""
        words = ["delay", f"{self.delay_ms}ms", "loss", f"{self.loss_percent}%"]
        return [*words, "rate", f"{self.rate_kbit_s}kbit"] if self.rate_kbit_s else words


@dataclass(frozen=True, slots=True)
class Count:
    """What a line has carried since it was made, in both directions: bytes of IP, and packets."""

    size: int
    packets: int

    def since(self, before: Count) -> Count:
        """Return what came after an earlier count."""
        return Count(self.size - before.size, self.packets - before.packets)


class Line:
    """The only way from a namespace of its own, `device`, to the relay's."""

    def __init__(self, relay: Namespace, number: int, shape: Shape) -> None:
        """Lay it; `number` (0 to 254) is its own among all lines of this relay."""
        self.device = Namespace()
        self.how = "nothing"
        """What shapes it."""
        self._between: Namespace | None = None
        self._closed = threading.Event()
        self._far, near = f"far{number}", f"near{number}"
        if shape and not _has_netem():
            self._between = Namespace()
            _pair(self.device, self._far, self._between, "far")
            _pair(relay, near, self._between, "near")
            self.how = "a program: this kernel has no netem"
        else:
            _pair(self.device, self._far, relay, near)
        addresses = f"{_ADDRESSES}.{number}.2", f"{_ADDRESSES}.{number}.1"
        ends = (self.device, self._far, addresses[0]), (relay, near, addresses[1])
        hardware = [_end(*end) for end in ends]
        for (namespace, name, _), other, address in zip(ends, reversed(hardware), reversed(addresses), strict=True):
            namespace.ip("neigh", "replace", address, "lladdr", other, "dev", name, "nud", "permanent")
        self.device.ip("route", "add", "default", "via", addresses[1])
        if self._between is not None:
            self._start_program(shape, number)
        elif shape:
            self.how = f"netem {' '.join(shape.netem())}"
            for namespace, name, _ in ends:
                with namespace.entered():
                    run("tc", "qdisc", "add", "dev", name, "root", "netem", *shape.netem())

    def count(self) -> Count:
        """Return what it has carried, as the kernel counts at the device's end."""
        for line in Path(f"/proc/{self.device.pid}/net/dev").read_text(encoding="ascii").splitlines():
            name, _, rest = line.strip().partition(":")
            if name == self._far:
                fields = [int(field) for field in rest.split()]
                packets = fields[1] + fields[9]
                return Count(fields[0] + fields[8] - _ETHERNET_BYTES * packets, packets)
        raise OSError("the line is gone")

    def close(self) -> None:
        """Take it away."""
        self._closed.set()
        for namespace in (self.device, self._between):
            if namespace is not None:
                namespace.close()

    def _start_program(self, shape: Shape, seed: int) -> None:
        assert self._between is not None
        with self._between.entered():
            ends = [socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_EVERY_PROTOCOL)) for _ in range(2)]
        for end, name in zip(ends, ("far", "near"), strict=True):
            end.bind((name, _EVERY_PROTOCOL))
        threading.Thread(target=_carry, args=(ends, shape, random.Random(seed), self._closed), daemon=True).start()


class RelayNamespace(Namespace):
    """The one at the near end of all lines; its programs listen at `RELAY_ADDRESS`."""

    def __init__(self) -> None:
        super().__init__()
        self.ip("addr", "add", f"{RELAY_ADDRESS}/32", "dev", "lo")

    def __enter__(self) -> Self:
        """Return it."""
        return self

    def __exit__(self, *_error: object) -> None:
        """End it."""
        self.close()


def refusal() -> str:
    """Return why this process may make no namespaces; empty if it may."""
    tried = subprocess.run(
        ["unshare", "--net", "ip", "link", "add", "one", "type", "veth"], capture_output=True, text=True, check=False
    )
    return tried.stderr.strip()


def run(*words: str) -> None:
    """Run a command that must succeed.

    Raises:
        OSError: it failed; the message is what it said.
    """
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"{' '.join(words)}: {done.stderr.strip()}")


def _enter(namespace: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")


def _pair(one: Namespace, its_name: str, other: Namespace, other_name: str) -> None:
    peer = ["peer", "name", other_name, "netns", str(other.pid)]
    run("ip", "link", "add", its_name, "netns", str(one.pid), "type", "veth", *peer)
    for namespace, name in ((one, its_name), (other, other_name)):
        with namespace.entered():
            _keep_segments(name)
            run("ip", "link", "set", name, "addrgenmode", "none")  # IPv6 would announce itself
            run("ip", "link", "set", name, "up")


def _end(namespace: Namespace, name: str, address: str) -> str:
    """Give an end its address; return its hardware's."""
    namespace.ip("addr", "add", f"{address}/24", "dev", name)
    with namespace.entered():
        shown = subprocess.run(["ip", "-o", "link", "show", name], capture_output=True, text=True, check=True).stdout
    return shown.split("link/ether ")[1].split()[0]


def _keep_segments(name: str) -> None:
    """Have the kernel compute checksums itself, and so cut segments itself: a card does neither on this device."""
    value = array.array("I", [_ETHTOOL_STXCSUM, 0])
    request = struct.pack("16sP16x", name.encode(), value.buffer_info()[0])
    with socket.socket() as control:
        fcntl.ioctl(control, _SIOCETHTOOL, request)


def _has_netem() -> bool:
    namespace = Namespace()
    try:
        with namespace.entered():
            run("tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms")
    except OSError:
        return False
    else:
        return True
    finally:
        namespace.close()


def _carry(ends: list[socket.socket], shape: Shape, dice: random.Random, closed: threading.Event) -> None:
    """Carry packets between both ends as netem does: lose some, then send at the rate, then wait for the delay."""
    waiting: list[tuple[float, int, socket.socket, bytes]] = []
    free = dict.fromkeys(ends, 0.0)
    number = 0
    while not closed.is_set():
        now = time.monotonic()
        while waiting and waiting[0][0] <= now:
            _, _, target, packet = heapq.heappop(waiting)
            target.send(packet)
        patience = max(0.0, min(_WAIT_S, waiting[0][0] - now)) if waiting else _WAIT_S
        for source in select.select(ends, [], [], patience)[0]:
            packet, origin = source.recvfrom(_PIECE_BYTES)
            if origin[2] == socket.PACKET_OUTGOING or len(waiting) >= _QUEUE_PACKETS:
                continue
            if dice.random() * 100 < shape.loss_percent:
                continue
            target = ends[1] if source is ends[0] else ends[0]
            begins = max(time.monotonic(), free[target])
            bits = 8 * len(packet)
            free[target] = begins + (bits / (shape.rate_kbit_s * 1_000) if shape.rate_kbit_s else 0.0)
            number += 1
            heapq.heappush(waiting, (free[target] + shape.delay_ms / 1_000, number, target, packet))
    for end in ends:
        end.close()
