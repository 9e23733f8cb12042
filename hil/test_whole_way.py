"""The whole way of a reading: sensor on the board → signed and sealed there → serial line → `covey run` → broker →
`covey collect` → vault → Spark row; and nothing that the gateway has opens what it carried, sealed or by a link key.
"""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from broker_conf.mosquitto import Broker
from covey.adapters.state_folder import StateFolder
from covey_boards.device.identity import from_file
from covey_boards.shared import cbor, framing, line_orders, link_machine, messages
from covey_boards.shared import tweetnacl as nacl
from hil.boards import runtimes
from hil.boards.emulated_board import EmulatedBoard
from hil.conftest import missing_device
from tests.integration.gateway import Gateway
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.spark

MARKER = "orchard:9f3c71d2/thermometer"
QUICK = {"interval_seconds": 0.1, "batch_seconds": 0.5, "sensors": [["counter", {"name": MARKER}], ["memory", {}]]}
MESSAGES = 16  # eight sealed ones, a LINK, and some by link
KEY_BYTES = 32
SEALED, LINKED = 1, 2


class Way(NamedTuple):
    """Everything between a sensor and the vault."""

    board: EmulatedBoard
    gateway: Gateway
    collector: Gateway
    author: str


@contextmanager
def _board(request: pytest.FixtureRequest, folder: Path) -> Iterator[EmulatedBoard]:
    try:
        board = EmulatedBoard(folder, settings=QUICK, heap_kib=128)  # sources: compiled on the board, as flash does
    except runtimes.MissingError as error:
        missing_device(request.config, "unix32", error)
        raise AssertionError from error
    try:
        yield board
    finally:
        board.close()


def _landed(collector: Gateway) -> int:
    return collector.counters().get("landed_messages", 0)


@pytest.fixture
def way(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Way]:
    """Run it until some messages have landed."""
    with Broker(tmp_path / "broker") as broker, _board(request, tmp_path / "board") as board:
        collector, gateway = (Gateway(tmp_path, name, broker) for name in ("collector", "gateway"))
        try:
            collector.ok("config", "set", "vault.segment_seconds", "0.5")
            collector.ok("group", "create", "--capability", "collector")
            collector.start("collect", "--no-sensors")
            collector.invite(gateway)
            gateway.ok("config", "set", "bridge.ports", str(board.port))
            gateway.start("run", "--no-sensors")
            board.start()
            wait_until(lambda: any(each["up"] for each in gateway.json("mcu", "stats")), "the agent knows the board")
            shown = gateway.json("mcu", "enrol", "--yes", "--label", "orchard")
            wait_until(lambda: _landed(collector) >= MESSAGES, "the board's messages land")
            assert board.alive
            yield Way(board, gateway, collector, shown["signing_public"])
        finally:
            gateway.kill()
            collector.kill()


def _forwarded(tape: bytes) -> list[bytes]:
    """Return the envelopes that a board handed to its gateway, out of the bytes of its line."""
    decoder = framing.Decoder(link_machine.MTU_MAX)
    found: list[bytes] = []
    whole = b""
    last = None
    for body in decoder.receive_bytes(tape):
        kind, sequence, payload = body[0], body[1], bytes(body[4:])
        if kind in (2, 3) and sequence != last:
            last, whole = sequence, whole + payload
            if kind == 3:
                message = line_orders.from_line(whole)
                whole = b""
                if message[0] == messages.CARRY:
                    found.append(message[2])
    return found


def _version(envelope: bytes) -> int:
    version: int = cbor.decode(envelope, messages.ENVELOPE_BYTES_MAX)[0]
    return version


def _open_by_link(envelope: bytes, key: bytes) -> bytes:
    _, tag, counter, box = cbor.decode(envelope, messages.ENVELOPE_BYTES_MAX)
    padded: bytes = nacl.crypto_secretbox_open(box, tag + counter.to_bytes(16, "big"), key)
    return padded.rstrip(b"\0")[:-1]


def _plain(envelopes: list[bytes], noise_secret: bytes) -> tuple[list[list[Any]], dict[bytes, bytes]]:
    """Return what the collector reads in the envelopes, and the link keys that it was given, by their tags."""
    opened: list[list[Any]] = []
    keys: dict[bytes, bytes] = {}
    for envelope in envelopes:
        if _version(envelope) == SEALED:
            raw = messages.open_sealed(envelope, noise_secret)
        else:
            raw = _open_by_link(envelope, keys[cbor.decode(envelope, messages.ENVELOPE_BYTES_MAX)[1]])
        opened.append(messages.read_message(raw))
        if opened[-1][0] == messages.LINK:
            assert _version(envelope) == SEALED
            tag, key = cbor.decode(opened[-1][8], 64)
            keys[tag] = key
    return opened, keys


def _secrets(gateway: Gateway) -> set[bytes]:
    """Return everything of 32 bytes that the gateway keeps: its keys, and each window of whatever may hold one."""
    identity = StateFolder.at(gateway.state).identity()
    found = {identity.signing_seed, *(key.secret.reveal() for key in identity.noise.keys)}
    texts = [path.read_bytes() for path in gateway.state.rglob("*") if path.is_file() and path.stat().st_size < 2048]
    for database in gateway.state.glob("state.sqlite"):
        with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as store:
            names = [row[0] for row in store.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            for name in names:
                for row in store.execute(f"SELECT * FROM {name}"):  # noqa: S608 - names of our own tables
                    texts += [cell for cell in row if isinstance(cell, bytes) and len(cell) <= 256]
    for text in texts:
        found |= {text[start : start + KEY_BYTES] for start in range(len(text) - KEY_BYTES + 1)}
        for word in re.findall(rb"[0-9a-f]{64}", text):
            found.add(bytes.fromhex(word.decode()))
    return found


def _opens(envelope: bytes, secret: bytes) -> bool:
    """Try a secret as the recipient's noise key, and as the key of the box itself; of a link envelope as the latter."""
    _, _, nonce, box = cbor.decode(envelope, messages.ENVELOPE_BYTES_MAX)
    attempts = [
        lambda: messages.open_sealed(envelope, secret),
        lambda: nacl.crypto_secretbox_open(box, nonce, secret),
    ]
    if _version(envelope) == LINKED:
        attempts = [lambda: _open_by_link(envelope, secret)]
    for attempt in attempts:
        try:
            attempt()
        except (cbor.WireError, nacl.CryptoError):
            continue
        return True
    return False


def _memory(gateway: Gateway) -> bytes:
    """Return every writable page of the gateway's process."""
    folder = Path("/proc") / str(gateway.pid)
    pages = []
    with (folder / "mem").open("rb", buffering=0) as memory:
        for line in (folder / "maps").read_text().splitlines():
            span, rights, *_ = line.split()
            if not rights.startswith("rw"):
                continue
            start, end = (int(number, 16) for number in span.split("-"))
            try:
                memory.seek(start)
                pages.append(memory.read(end - start))
            except (OSError, OverflowError):  # [vvar] and its like
                continue
    return b"".join(pages)


def _files(gateway: Gateway) -> bytes:
    return b"".join(path.read_bytes() for path in gateway.state.rglob("*") if path.is_file())


def _rows(collector: Gateway) -> list[tuple[str, str, str, int, int, float]]:
    from covey_ingest.spark.session import spark_session
    from covey_ingest.spark.source import readings

    spark = spark_session("covey-boards", **{"spark.master": "local[1]", "spark.sql.shuffle.partitions": "1"})
    try:
        source = spark.read.format("covey").option("keyFile", str(collector.state / "vault.key"))
        rows = readings(source.load(str(collector.state / "vault")))
        columns = ("author", "name", "incarnation", "seq", "index", "value")
        return [tuple(row) for row in rows.select(*columns).collect()]
    finally:
        spark.stop()


def test_from_the_sensor_to_the_table_and_closed_to_the_gateway(way: Way) -> None:
    envelopes = _forwarded(way.board.line.tape)
    assert len(envelopes) >= MESSAGES
    collector = StateFolder.at(way.collector.state).identity()
    [opener] = [key.secret.reveal() for key in collector.noise.keys]
    plain, keys = _plain(envelopes, opener)  # what was carried is what was measured
    assert {each[1] for each in plain} == {bytes.fromhex(way.author)}
    assert any(MARKER.encode() in each[8] for each in plain)
    by_link = [envelope for envelope in envelopes if _version(envelope) == LINKED]
    assert len(by_link) >= 4
    assert len(keys) == 1
    assert all(_opens(envelope, keys[tag]) for envelope in by_link for tag in keys), "the scan below would see it"

    secrets = _secrets(way.gateway)
    assert len(secrets) > 20
    assert not {opener, *keys.values()} & secrets
    assert not [secret for secret in secrets for envelope in envelopes if _opens(envelope, secret)]
    memory, files = _memory(way.gateway), _files(way.gateway)
    identity = from_file(way.board.file("identity.key"))
    assert identity.signing_public in memory, "the scan sees what is there"
    assert identity.signing_public in files
    for hidden in (MARKER.encode(), opener, *keys.values(), identity.signing_secret[:32], identity.noise_secret):
        assert hidden not in memory
        assert hidden not in files

    way.collector.ok("message", "send", "--to", "orchard", "--text", '{"interval_seconds": 7}')
    wait_until(lambda: b'"interval_seconds": 7' in way.board.file("covey.json"), "the board has its new settings")
    way.board.kill()
    way.collector.end()
    rows = _rows(way.collector)
    assert {author for author, *_ in rows} == {way.author} == {identity.signing_public.hex()}
    counted = sorted(value for _, name, _, _, _, value in rows if name == MARKER)
    assert counted == list(range(1, len(counted) + 1))
    assert len(counted) > 5
    assert len({row[2:5] for row in rows}) == len(rows), "each reading once"
