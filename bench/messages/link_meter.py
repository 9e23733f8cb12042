"""Counts all bytes between a device and its relay: by the kernel's account of each connection, and by MQTT packets.

The device speaks TLS 1.3 to the meter, which passes the packets on to a plain broker on this machine. Of each
connection the kernel says how many bytes and segments went either way (TCP_INFO, tcp(7)), bare acknowledgements
included. A segment costs 20 bytes of IPv4 and 32 of TCP, whose timestamps Linux sends by default.
"""

from __future__ import annotations

import selectors
import socket
import ssl
import struct
import subprocess
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

HEADER_BYTES = 52
"""IPv4 and TCP with timestamps, of each segment."""

_TCP_INFO_BYTES = 144
_BYTES_AND_SEGMENTS = "=QQII"  # acknowledged, received, segments sent, segments received
_BYTES_AT = 120
_PIECE_BYTES = 65_536
_LOOK_S = 0.5

_KINDS = {1: "connect", 2: "connect", 4: "puback", 8: "subscribe", 9: "subscribe", 12: "ping", 13: "ping"}
_PUBLISH = 3

_NAMES = """
[req]
distinguished_name = it
x509_extensions = server
[it]
[server]
subjectAltName = IP:{address}
basicConstraints = critical,CA:TRUE
"""


def certificate(folder: Path, address: str = "127.0.0.1") -> tuple[Path, Path]:
    """Make a certificate for an address; return (certificate, key)."""
    folder.mkdir()
    (folder / "names.cnf").write_text(_NAMES.format(address=address))
    chain, key = folder / "relay.crt", folder / "relay.key"
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    subject = ["-subj", f"/CN={address}", "-config", str(folder / "names.cnf")]
    words = ["openssl", "req", "-x509", *curve, *subject, "-days", "3", "-keyout", str(key), "-out", str(chain)]
    subprocess.run(words, check=True, capture_output=True)
    return chain, key


@dataclass(frozen=True, slots=True)
class Traffic:
    """What has gone over a line: bytes in all, segments, and the bytes and number of MQTT's packets by kind."""

    payload: int = 0
    segments: int = 0
    packets: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def headers(self) -> int:
        """Bytes of TCP and IP."""
        return self.segments * HEADER_BYTES

    @property
    def tls(self) -> int:
        """Bytes of TLS: handshakes, records, and what protects them."""
        return self.payload - sum(self.packets.values())

    @property
    def total(self) -> int:
        """All bytes."""
        return self.payload + self.headers

    def since(self, before: Traffic) -> Traffic:
        """Return what has come since an earlier look."""
        return Traffic(
            self.payload - before.payload,
            self.segments - before.segments,
            self.packets - before.packets,
            self.counts - before.counts,
        )


class _Packets:
    """Counts the packets of one direction of one connection."""

    def __init__(self, direction: str) -> None:
        self._direction = direction
        self._left = b""

    def take(self, piece: bytes, sizes: Counter[str], counts: Counter[str]) -> None:
        self._left += piece
        while (size := _packet_bytes(self._left)) is not None and size <= len(self._left):
            kind = self._left[0] >> 4
            name = f"publish {self._direction}" if kind == _PUBLISH else _KINDS.get(kind, "other")
            sizes[name] += size
            counts[name] += 1
            self._left = self._left[size:]


def _packet_bytes(raw: bytes) -> int | None:
    """Return the length of the packet that begins here (MQTT 5, section 2.1.4); None where that is not here yet."""
    length = 0
    for place, byte in enumerate(raw[1:5]):
        length |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return 2 + place + length
    return None


class Meter:
    """Passes the connections of one device on to a broker, and counts."""

    def __init__(self, broker_port: int, chain: Path, key: Path) -> None:
        self._broker_port = broker_port
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.minimum_version = ssl.TLSVersion.TLSv1_3
        self._context.load_cert_chain(chain, key)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"mqtts://127.0.0.1:{self._listener.getsockname()[1]}"
        self._lock = threading.Lock()
        self._ended = Traffic()
        self._open: dict[socket.socket, tuple[int, int]] = {}
        self.connections = 0
        """How many the device has now, with those that are being opened."""
        self.accepted = 0
        """How many it has had."""
        self._packets: Counter[str] = Counter()
        self._counts: Counter[str] = Counter()
        threading.Thread(target=self._accept, daemon=True).start()

    def traffic(self) -> Traffic:
        """Return what has gone so far."""
        with self._lock:
            for connection in self._open:
                self._look(connection)
            payload = self._ended.payload + sum(payload for payload, _ in self._open.values())
            segments = self._ended.segments + sum(segments for _, segments in self._open.values())
            return Traffic(payload, segments, self._packets.copy(), self._counts.copy())

    def close(self) -> None:
        """Take no connections any more."""
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                accepted, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(accepted,), daemon=True).start()

    def _serve(self, accepted: socket.socket) -> None:
        with self._lock:
            self.connections += 1
            self.accepted += 1
        try:
            self._serve_to_its_end(accepted)
        finally:
            with self._lock:
                self.connections -= 1

    def _serve_to_its_end(self, accepted: socket.socket) -> None:
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with suppress(OSError), socket.create_connection(("127.0.0.1", self._broker_port)) as broker:
            broker.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._context.wrap_socket(accepted, server_side=True) as device:
                with self._lock:
                    self._open[device] = (0, 0)
                try:
                    self._pass_on(device, broker)
                finally:
                    with self._lock:
                        payload, segments = self._open.pop(device)
                        ended = self._ended
                        self._ended = Traffic(ended.payload + payload, ended.segments + segments)

    def _pass_on(self, device: ssl.SSLSocket, broker: socket.socket) -> None:
        up, down = _Packets("up"), _Packets("down")
        with selectors.DefaultSelector() as selector:
            for each in (device, broker):
                selector.register(each, selectors.EVENT_READ)
            while True:
                ready = {key.fileobj for key, _ in selector.select(_LOOK_S)}
                with self._lock:
                    self._look(device)
                for source, target, packets in ((device, broker, up), (broker, device, down)):
                    if source in ready or (source is device and device.pending()):
                        piece = source.recv(_PIECE_BYTES)
                        if not piece:
                            return
                        target.sendall(piece)
                        with self._lock:
                            packets.take(piece, self._packets, self._counts)

    def _look(self, connection: socket.socket) -> None:
        """Note what the kernel has counted of a connection; after its end that is what it said last."""
        with suppress(OSError):
            raw = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
            sent, received, segments_out, segments_in = struct.unpack_from(_BYTES_AND_SEGMENTS, raw, _BYTES_AT)
            self._open[connection] = sent + received, segments_out + segments_in


def settle(seconds: float) -> float:
    """Wait; return how long it was."""
    began = time.monotonic()
    time.sleep(seconds)
    return time.monotonic() - began
