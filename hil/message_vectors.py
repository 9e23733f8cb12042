"""The protocol's own vectors as lines for `message_runner`, but those that no board needs."""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from covey.core.telemetry.batch import Kind
from covey.core.wire import cbor as wire_cbor
from covey.core.wire.message import MessageType
from tests.vectors import from_json

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = Path(__file__).resolve().parent.parent / "tests" / "vectors"
LONGEST = 4_000
BATCH_BYTES_MAX = 2_048
_NOT_FOR_BOARDS = {MessageType.EPHEMERAL}
"""Types that nobody sends a board, and that it refuses."""


def _load(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return loaded


def _holds_a_map(value: object) -> bool:
    return (isinstance(value, dict) and "map" in value) or (isinstance(value, list) and any(map(_holds_a_map, value)))


def cbor() -> Iterator[str]:
    """Yield what is accepted and what is refused; maps are refused by boards, so theirs are left out."""
    for entry in _load("cbor")["vectors"]:
        if any(key.endswith("_repeat") for key in entry) or len(entry["bytes"]) > LONGEST:
            continue
        if entry["code"] is None and not _holds_a_map(entry["value"]):
            yield f"cbor {entry['bytes']} {entry['bytes']}"
        elif entry["code"] == "malformed":
            yield f"cbor {entry['bytes'] or '-'} malformed"


def envelopes() -> Iterator[str]:
    """Yield sealing with fixed keys and by a link key, opening, what is refused, and lengths."""
    loaded = _load("envelopes")
    keys = loaded["keys"]
    for entry in loaded["vectors"]:
        if any(key.endswith("_repeat") for key in entry) or len(entry["bytes"]) > LONGEST:
            continue
        recipient = keys[entry["recipient"]]
        if entry["code"] is None:
            message = entry["message"] or "-"
            arguments = f"{message} {recipient['noise_public']} {entry['ephemeral_secret']} {entry['nonce']}"
            yield f"seal {arguments} {entry['bytes']}"
            yield f"open {entry['bytes']} {recipient['noise_secret']} {message}"
        else:
            yield f"open {entry['bytes'] or '-'} {recipient['noise_secret']} {entry['code']}"
    for length, padded in loaded["padded"]:
        yield f"padded {length} {padded}"
    links = _load("link_envelopes")
    for entry in links["vectors"]:
        if entry["code"] is None and len(entry["bytes"]) <= LONGEST:
            place = f"{links['tag']} {links['key']} {from_json(entry['counter'])}"
            yield f"link {entry['message'] or '-'} {place} {entry['bytes']}"


def messages() -> Iterator[str]:
    """Yield signing, reading and what is refused; acknowledgements and losses."""
    loaded = _load("messages")
    for entry in loaded["vectors"]:
        if any(key.endswith("_repeat") for key in entry) or entry.get("type") in _NOT_FOR_BOARDS:
            continue
        if entry["code"] is None:
            author, recipient = loaded["keys"][entry["author"]], loaded["keys"][entry["recipient"]]
            fields = [entry[name] for name in ("group_id", "incarnation", "seq", "link_seq", "sent_at_us")]
            arguments = [author["signing_seed"], entry["type"], recipient["signing_public"], *fields]
            yield f"write {' '.join(map(str, arguments))} {entry['body'] or '-'} {entry['bytes']}"
            yield f"read {entry['bytes']} ok"
        else:
            yield f"read {entry['bytes'] or '-'} {entry['code']}"
    for entry in loaded["acknowledgements"]:
        if any(key.endswith("_repeat") for key in entry) or len(entry["bytes"]) > LONGEST:
            continue
        answer = entry["code"] or f"{entry['incarnation']}:{json.dumps(entry['received'], separators=(',', ':'))}"
        yield f"ack {entry['bytes'] or '-'} {answer}"
    for entry in loaded["losses"]:
        if entry["code"] is None and len(entry["loss"]) == 3:  # a board has no earlier incarnation to speak of
            yield f"loss {json.dumps(entry['loss']).encode().hex()} {entry['bytes']}"


def batches() -> Iterator[str]:
    """Yield what a board can measure, with the body that the agent writes, not compressed."""
    for entry in _load("telemetry")["vectors"]:
        kinds = {series[2] for series in entry.get("series", [])}
        is_measured = entry["code"] is None and "readings" in entry and kinds <= {Kind.DECIMAL, Kind.FLOAT}
        if not is_measured or entry["clock"]["kind"] == 2:
            continue
        number, (*head, inflated, packed) = wire_cbor.decode(bytes.fromhex(entry["bytes"]), 10**6)
        columns = zlib.decompress(packed, -15) if inflated else packed
        if len(columns) > BATCH_BYTES_MAX:
            continue
        body = wire_cbor.encode([number, [*head, 0, columns]])
        clock = entry["clock"]
        said = f"{number} {clock['kind']} {clock['boot_id']} {clock['monotonic_us']} {clock['wall_us']}"
        yield f"batch {said} {_readings(entry).encode().hex()} {body.hex()}"


def _readings(entry: dict[str, Any]) -> str:
    """Return the readings as a board's sensors give them; floats as their bytes."""
    scales = {(name, unit): (None if kind == Kind.FLOAT else scale) for name, unit, kind, scale, _ in entry["series"]}
    rows = []
    for name, unit, time_us, value in from_json(entry["readings"]):
        scale = scales[name, unit]
        number = struct.pack("<d", value).hex() if scale is None else round(value * 10**scale)
        rows.append([name, unit, scale, number, time_us])
    return json.dumps(rows)


def boards() -> Iterator[str]:
    """Yield messages of the line, a result that a board signs, and datagrams in the order in which they come."""
    loaded = _load("boards")
    for entry in loaded["messages"]:
        yield f"line {entry['bytes']} {entry['code'] or 'ok'}"
    for entry in loaded["results"]:
        if entry["code"] is None:
            yield f"result {loaded['keys'][entry['board']]['signing_seed']} {entry['bytes']} {entry['signature']}"
    raws, frames = ([entry[name] or "-" for entry in loaded["datagrams"]] for name in ("bytes", "frames"))
    yield f"datagrams {','.join(raws)} {','.join(frames)}"


SOURCES = {"cbor": cbor, "envelopes": envelopes, "messages": messages, "batches": batches, "boards": boards}
