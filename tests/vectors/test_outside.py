"""What `tests/outside` makes of the vectors: it reads what they show, and refuses what they say is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="the spark extra is not installed")

from tests.outside.members import manifests_in, read_identity, read_manifest
from tests.outside.messages import read_loss, read_message
from tests.outside.primitives import RefusedError, parsed
from tests.outside.telemetry import read_summary, read_telemetry
from tests.outside.vault import Entry, Vault, check_of

_FOLDER = Path(__file__).parent


def _content(name: str) -> Any:
    return json.loads((_FOLDER / f"{name}.json").read_text())


def _vectors(name: str, *sections: str) -> list[Any]:
    content = _content(name)
    return [pytest.param(each, id=each["name"]) for section in sections for each in content[section]]


def _bytes(vector: dict[str, Any]) -> bytes:
    content = bytes.fromhex(vector["bytes"])
    repeated = vector.get("bytes_repeat")
    return content + bytes.fromhex(repeated[0]) * repeated[1] if repeated else content


def _judge(vector: dict[str, Any], read: Callable[[], Any]) -> Any:
    """Return what was read, or None where it was refused as it should be."""
    if vector["code"] is None:
        return read()
    with pytest.raises(RefusedError) as refusal:
        read()
    code = "decryption" if refusal.value.args[0] == "vault_key" else refusal.value.args[0]  # of a reader of many keys
    assert code == vector["code"]
    return None


NODE = bytes.fromhex(_content("vault")["node"]["node_id"])


@pytest.mark.parametrize("vector", _vectors("cbor", "vectors"))
def test_cbor(vector: dict[str, Any]) -> None:
    _judge(vector, lambda: parsed(_bytes(vector), object))


@pytest.mark.parametrize("vector", _vectors("messages", "vectors"))
def test_messages(vector: dict[str, Any]) -> None:
    message = _judge(vector, lambda: read_message(_bytes(vector)))
    if message:
        named = [vector[name] for name in ("type", "seq", "link_seq")]
        assert [message.type, message.seq, message.link_seq] == named
        assert [message.group.hex(), message.incarnation.hex()] == [vector["group_id"], vector["incarnation"]]


@pytest.mark.parametrize("vector", _vectors("messages", "losses"))
def test_losses(vector: dict[str, Any]) -> None:
    loss = _judge(vector, lambda: read_loss(_bytes(vector)))
    if loss:
        reason, places, numbers, *earlier = vector["loss"]
        spans = [[(first, last) for first, last in ranges] for ranges in (places, numbers)]
        assert loss == (reason, *spans, bytes.fromhex(earlier[0]) if earlier else None)


@pytest.mark.parametrize("vector", _vectors("telemetry", "vectors"))
def test_telemetry(vector: dict[str, Any]) -> None:
    batch = _judge(vector, lambda: read_telemetry(_bytes(vector)))
    if batch:
        wall = [[name, unit, time + batch.offset, value] for name, unit, time, value in batch.readings]
        assert (batch.number, wall) == (_spelled_out(vector.get("number", 1)), _spelled_out(vector["decoded"]))
        assert batch.alarm == vector["alarm"]


@pytest.mark.parametrize("vector", _vectors("summaries", "vectors"))
def test_summaries(vector: dict[str, Any]) -> None:
    summary = _judge(vector, lambda: read_summary(_bytes(vector)))
    if summary:
        series = [[*named, [list(window) for window in windows]] for *named, windows in summary.series]
        assert [summary.window, series] == [vector["window_us"], _spelled_out(vector["series"])]
        assert [list(span) for span in summary.numbers] == vector["numbers"]


def _spelled_out(value: Any) -> Any:
    """Return a value that JSON cannot hold, as section 17 spells it."""
    match value:
        case {"int": digits}:
            return int(digits)
        case {"bytes": digits}:
            return bytes.fromhex(digits)
        case list():
            return [_spelled_out(each) for each in value]
    return value


@pytest.mark.parametrize("vector", _vectors("group_manifests", "manifests", "refused"))
def test_group_manifests(vector: dict[str, Any]) -> None:
    manifest = _judge({"code": None} | vector, lambda: read_manifest(_bytes(vector)))
    if manifest:
        assert (manifest.hash.hex(), manifest.version) == (vector["hash"], vector["version"])
        assert [key.hex() for key in manifest.members] == [member["signing_public"] for member in vector["members"]]


@pytest.mark.parametrize("vector", _vectors("history_files", "cases"))
def test_history_files(vector: dict[str, Any]) -> None:
    reader, secret = (bytes.fromhex(vector[name]) for name in ("reader", "noise_secret"))
    manifests = _judge(vector, lambda: manifests_in(_bytes(vector), reader, [secret]))
    if manifests:
        assert [each.hex() for each in manifests] == vector["reads"][: len(manifests)]


@pytest.fixture
def vault(tmp_path: Path) -> Vault:
    """The vault of the vectors, of which a reader has the key."""
    named = _content("vault")["vault"]
    keys = {"vault_id": named["vault_id"], "keys": [{"key_id": named["key_id"], "key": named["key"]}]}
    (tmp_path / "vault.key").write_text(json.dumps({**keys, "check": check_of(keys).hex()}))
    return Vault(str(tmp_path), tmp_path / "vault.key")


@pytest.mark.parametrize("vector", _vectors("key_files", "vault_keys"))
def test_vault_keys(tmp_path: Path, vector: dict[str, Any]) -> None:
    (tmp_path / "vault.key").write_text(vector["text"])
    if vector["code"] is None:
        Vault(str(tmp_path), tmp_path / "vault.key")
        return
    with pytest.raises(RefusedError):
        Vault(str(tmp_path), tmp_path / "vault.key")


def _entry(spelled: dict[str, Any]) -> Entry:
    numbers = {name.removesuffix("_us"): value for name, value in spelled.items()}
    return Entry(**numbers | {name: bytes.fromhex(spelled[name]) for name in ("incarnation", "hash")})


@pytest.mark.parametrize("vector", _vectors("vault", "segments", "merged"))
def test_segments(vault: Vault, vector: dict[str, Any]) -> None:
    records = _judge(vector, lambda: vault.read_segment(_bytes(vector), NODE, _entry(vector["entry"])))
    if records:
        parts = vector.get("parts") or [[vector["entry"]["number"], 0, vector["records"]]]
        assert records == [
            (number, received_at, bytes.fromhex(content))
            for number, _, found in parts
            for received_at, content in found
        ]


@pytest.mark.parametrize("vector", _vectors("erasures", "segments"))
def test_thinned_segments(vault: Vault, vector: dict[str, Any]) -> None:
    found = _judge(vector, lambda: vault.read_thinned(_bytes(vector), NODE, _entry(vector["entry"])))
    if found:
        records, erased = found
        assert records == [
            (number, received_at, bytes.fromhex(content))
            for number, _, records in vector["parts"]
            for received_at, content in records
        ]
        assert [[each.author.hex(), each.incarnation.hex(), [*map(list, each.numbers)]] for each in erased] == vector[
            "erased"
        ]


@pytest.mark.parametrize("vector", _vectors("vault", "ranges"))
def test_ranges(vault: Vault, vector: dict[str, Any]) -> None:
    named = vector["range"]
    fields = [named["first"], named["last"], bytes.fromhex(named["hash"]), named["size"]]
    entries = _judge(vector, lambda: vault.read_range(_bytes(vector), NODE, fields))
    if entries:
        assert entries == [_entry(each) for each in vector["entries"]]


@pytest.mark.parametrize("vector", _vectors("vault", "manifests"))
def test_vault_manifests(vault: Vault, vector: dict[str, Any]) -> None:
    ranges: list[list[Any]] = []

    def read_range(_: bytes, named: list[Any]) -> list[Entry]:
        ranges.append(named)
        return []

    floor = max(1, vector["floor"])
    node = _judge(vector, lambda: vault.read_manifest(_bytes(vector), NODE, read_range, floor))
    if node:
        assert [named[:2] for named in ranges] == [[each["first"], each["last"]] for each in vector["ranges"]]
        assert node.entries == [_entry(each) for each in vector["segments"]]
        assert node.erasures == []


@pytest.mark.parametrize("vector", _vectors("erasures", "manifests"))
def test_erasures(vault: Vault, vector: dict[str, Any]) -> None:
    node = _judge(vector, lambda: vault.read_manifest(_bytes(vector), NODE, lambda *_: []))
    if node:
        assert node.entries == [_entry(each) for each in vector["segments"]]
        spelled = [[each.hex() if isinstance(each, bytes) else each for each in one] for one in node.erasures]
        assert spelled == [[*each.values()] for each in vector["erasures"]]


@pytest.mark.parametrize("vector", _vectors("key_files", "noise_keys"))
def test_noise_keys(tmp_path: Path, vector: dict[str, Any]) -> None:
    content = _content("key_files")
    (tmp_path / "identity.key").write_bytes(bytes.fromhex(content["identities"][0]["bytes"]))
    (tmp_path / "noise.keys").write_bytes(_bytes(vector))
    if vector["code"] is not None:
        with pytest.raises(RefusedError):
            read_identity(tmp_path)
        return
    device, secrets = read_identity(tmp_path)
    assert device.hex() == content["keys"]["alice"]["signing_public"]
    assert [each.hex() for each in secrets] == [content["keys"][name]["noise_secret"] for name, _ in vector["secrets"]]
