"""A vault as a person looks after it: in a directory, and in a store that really speaks S3."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from covey.adapters.keys.vault_key_file import read_vault_keys
from covey.adapters.objects.cloud import open_cloud_store
from covey.adapters.objects.folder import DirectoryStore
from covey.adapters.objects.location import open_existing_store
from covey.errors import ConfigurationError, ConflictError, LimitError, MalformedError, StorageError
from covey.limits.content import CHUNK_BYTES
from covey.ports import ObjectStore, PiecewiseStore
from tests.command import covey
from tests.integration.gateway import Gateway
from tests.integration.s3_server import s3_server, s3_vault
from tests.waiting import wait_until

__all__ = ["s3_server", "s3_vault"]

Make = Callable[[str], Gateway]


@pytest.fixture(params=["directory", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> PiecewiseStore:
    if request.param == "directory":
        return DirectoryStore(tmp_path)
    return open_cloud_store(request.getfixturevalue("s3_vault"))


def test_the_store_returns_what_was_put_and_none_otherwise(store: ObjectStore) -> None:
    assert store.get("objects/a.x", 10) is None
    store.put("objects/a.x", b"one")
    store.put("objects/a.x", b"other")
    assert store.get("objects/a.x", 5) == b"other"
    with pytest.raises(LimitError):
        store.get("objects/a.x", 4)
    store.put("objects/b/c.x", b"")
    assert list(store.keys("objects/")) == ["objects/a.x", "objects/b/c.x"]
    assert list(store.keys("objects/b")) == ["objects/b/c.x"]
    assert list(store.keys("nothing/")) == []
    store.delete("objects/a.x")
    store.delete("objects/a.x")
    assert store.get("objects/a.x", 10) is None
    for call in (lambda: store.put("../a", b""), lambda: store.get("a b", 1), lambda: store.delete("/a")):
        with pytest.raises(MalformedError):
            call()


def test_an_object_is_given_from_any_position_in_pieces(store: PiecewiseStore) -> None:
    content = random.Random(5).randbytes(3 * CHUNK_BYTES + 7)
    assert store.pieces("content/a", 0, 9) is None
    store.put("content/a", content)
    for begin, end in ((0, len(content)), (5, 6), (CHUNK_BYTES - 1, 2 * CHUNK_BYTES + 1), (7, len(content) + 9)):
        pieces = [*(store.pieces("content/a", begin, end) or ())]
        assert b"".join(pieces) == content[begin:end]
        assert max(map(len, pieces)) < 2 * CHUNK_BYTES
    with pytest.raises(MalformedError):
        store.pieces("../a", 0, 1)


def test_a_replacement_names_what_it_replaces(store: ObjectStore) -> None:  # accepts: 004.14
    store.replace("objects/m", b"one", None)
    with pytest.raises(ConflictError):
        store.replace("objects/m", b"two", None)
    store.replace("objects/m", b"two", b"one")
    for before in (b"one", b"twoo", b"tw"):
        with pytest.raises(ConflictError):
            store.replace("objects/m", b"three", before)
    with pytest.raises(ConflictError):
        store.replace("objects/n", b"three", b"two")
    assert store.get("objects/m", 10) == b"two"
    assert store.get("objects/n", 10) is None


def test_a_missing_store_is_reported_in_one_line(s3_vault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for wrong in ("ftp://host/x", "s3://", "s3://user:secret@bucket/x"):
        with pytest.raises(ConfigurationError) as refused:
            open_cloud_store(wrong)
        assert refused.value.hint
    nowhere = open_cloud_store(s3_vault.replace("s3://", "s3://no-such-bucket-"))
    with pytest.raises(StorageError) as failed:
        nowhere.put("a", b"")
    assert "\n" not in str(failed.value)
    assert "not a secret" not in str(failed.value)


def _lines(first: int, last: int) -> str:
    return "".join(f'{{"n":"t","u":"Cel","t":{1_790_000_000 + n},"v":{n}}}\n' for n in range(first, last))


def _fleet(new_gateway: Make, *collect: str, environment: dict[str, str] | None = None) -> tuple[Gateway, Gateway]:
    collector, gateway = new_gateway("collector"), new_gateway("gateway")
    collector.ok("group", "create", "--capability", "collector")
    collector.ok("config", "set", "vault.segment_seconds", "0.1")
    collector.start("collect", "--no-sensors", *collect, environment=environment)
    collector.invite(gateway)
    return collector, gateway


@pytest.mark.broker
def test_a_collector_lands_in_s3_and_a_pull_mirrors_it(  # accepts: 004.01, 004.02
    new_gateway: Make, s3_vault: str, tmp_path: Path
) -> None:
    collector, gateway = _fleet(new_gateway, "--vault", s3_vault, environment=dict(os.environ))
    gateway.ok("publish", "--batch", "5", "--wait", "300", feed=_lines(0, 20))
    (row,) = collector.json("vault", "status", "--vault", s3_vault)["nodes"]
    assert (row["trouble"], row["last_position"] >= 1) == ("", True)
    assert collector.json("vault", "verify", "--vault", s3_vault) == {"findings": []}
    mirror = tmp_path / "mirror"
    assert collector.json("vault", "pull", str(mirror), "--vault", s3_vault) == {"findings": []}
    names = sorted(DirectoryStore(mirror).keys(""))
    assert names == sorted(open_cloud_store(s3_vault).keys(""))
    assert [*open_existing_store(s3_vault).keys(names[0].rpartition("/")[0] + "/")] == names[:1]
    gateway.ok("publish", "--batch", "5", "--wait", "300", feed=_lines(20, 40))
    assert collector.json("vault", "pull", str(mirror), "--vault", s3_vault) == {"findings": []}
    assert len(list(DirectoryStore(mirror).keys(""))) > len(names)
    assert collector.json("vault", "verify", "--vault", str(mirror)) == {"findings": []}
    done = collector.json("vault", "delete", "--author", gateway.author, "--vault", s3_vault, "--no-note")
    assert (done["messages"], done["waiting"], done["noted"]) == (8, 0, False)
    assert collector.ok("vault", "readings", "--vault", s3_vault) == ""
    assert collector.json("vault", "pull", str(mirror), "--vault", s3_vault) == {"findings": []}
    assert sorted(DirectoryStore(mirror).keys("")) == sorted(open_cloud_store(s3_vault).keys(""))


@pytest.mark.broker
def test_a_hostile_store_is_reported(new_gateway: Make, tmp_path: Path) -> None:  # accepts: 004.15, 004.16, 004.24
    collector, gateway = _fleet(new_gateway)
    vault = collector.state / "vault"
    gateway.ok("publish", "--batch", "5", "--wait", "300", feed=_lines(0, 10))
    collector.ok("vault", "status")
    (manifest,) = vault.rglob("*.hxman")
    yesterday = manifest.read_bytes()
    gateway.ok("publish", "--batch", "5", "--wait", "300", feed=_lines(10, 20))
    collector.ok("vault", "status")
    collector.end()
    today = manifest.read_bytes()

    manifest.write_bytes(yesterday)
    reported = collector.covey("vault", "status", "--json")
    assert reported.returncode == 1
    assert [row["trouble"] for row in json.loads(reported.stdout)["nodes"]] == ["rollback"]
    mirror = tmp_path / "mirror"
    assert collector.covey("vault", "pull", str(mirror)).returncode == 1
    assert not list(mirror.rglob("*"))

    manifest.write_bytes(today)
    segment = min(vault.rglob("*.hxseg"))
    content = bytearray(segment.read_bytes())
    content[-1] ^= 1
    segment.write_bytes(content)
    reported = collector.covey("vault", "verify", "--json")
    assert reported.returncode == 1
    assert [(row["segment"], row["code"]) for row in json.loads(reported.stdout)["findings"]] == [(1, "decryption")]
    assert collector.covey("vault", "pull", str(mirror)).returncode == 1
    assert not list(mirror.rglob("*.hxman")), "a mirror never lists what it does not have"

    content[-1] ^= 1
    segment.write_bytes(content)
    collector.ok("vault", "pull", str(mirror))
    assert sorted(path.name for path in mirror.rglob("*.hx*")) == sorted(path.name for path in vault.rglob("*.hx*"))


def test_keys_are_drawn_once_copied_0600_and_rotated(new_gateway: Make, tmp_path: Path) -> None:
    gateway = new_gateway("gateway")
    assert "covey vault init" in gateway.fails("vault", "status", code=1)
    first = gateway.json("vault", "init", "--vault", str(tmp_path / "vault"))
    second = gateway.json("vault", "init")
    assert (first["new"], second["new"], second["vault_id"]) == (True, False, first["vault_id"])
    assert second["location"] == str(tmp_path / "vault")
    assert gateway.json("vault", "rotate-key")["keys"] == 2
    copy = tmp_path / "copy.key"
    gateway.ok("vault", "export-key", str(copy))
    assert copy.stat().st_mode & 0o777 == 0o600
    own, copied = read_vault_keys(gateway.state / "vault.key"), read_vault_keys(copy)
    assert copied.keys == own.keys
    assert own.reader_secret is not None
    assert copied.reader_secret is None, "whoever made the copy is given nothing by others in its name"
    assert own.newest.key.hex() in copy.read_text()
    for name in ("vault.key", "vault.key.copy"):
        assert (gateway.state / name).read_bytes().startswith(b"covey-wrapped-1 ")
    assert "already exists" in gateway.fails("vault", "export-key", str(copy), code=2)


@pytest.mark.broker
def test_a_rotated_key_seals_what_lands_next_and_old_segments_still_open(new_gateway: Make) -> None:
    collector, gateway = _fleet(new_gateway)
    gateway.ok("publish", "--batch", "5", "--wait", "300", feed=_lines(0, 5))
    rotated = collector.json("vault", "rotate-key")
    gateway.ok("publish", "--batch", "5", "--wait", "300", feed=_lines(5, 10))
    segments = sorted((collector.state / "vault").rglob("*.hxseg"))
    ids = [path.read_bytes()[6:14].hex() for path in segments]
    assert ids[-1] == rotated["key_id"] != ids[0]
    assert collector.json("vault", "verify") == {"findings": []}
    wait_until(lambda: gateway.queued() == 0, "everything is acknowledged")


def test_a_vault_without_manifests_is_no_updates(new_gateway: Make, tmp_path: Path) -> None:  # accepts: 004.23
    gateway = new_gateway("gateway")
    gateway.ok("vault", "init")
    assert gateway.json("vault", "verify") == {"findings": []}
    assert gateway.json("vault", "pull", str(tmp_path / "mirror")) == {"findings": []}
    (row,) = gateway.json("vault", "status")["nodes"]
    assert (row["trouble"], row["last_position"]) == ("missing", 0)


def _publish_in_segments(gateway: Gateway, count: int, first: int = 0) -> None:
    """Publish so that each batch lands in a segment of its own."""
    for number in range(first, first + count):
        gateway.ok("publish", "--wait", "300", feed=_lines(number, number + 1))


@pytest.mark.broker
def test_a_vault_is_compacted_beside_its_running_collector(new_gateway: Make, tmp_path: Path) -> None:
    collector, gateway = _fleet(new_gateway)
    vault, mirror = collector.state / "vault", tmp_path / "mirror"
    _publish_in_segments(gateway, 6)
    collector.ok("vault", "pull", str(mirror))
    planned = collector.json("vault", "compact", "--older-than", "0", "--dry-run")
    assert (planned["dry_run"], planned["segments"], planned["merged"]) == (True, 5, 1)
    assert len(list(vault.rglob("*.hxseg"))) == 6, "a dry run writes nothing"
    assert collector.json("vault", "compact")["segments"] == 0, "nothing is an hour old"

    done = collector.json("vault", "compact", "--older-than", "0")
    assert (done["segments"], done["merged"], done["deleted"], done["waiting"]) == (5, 1, 0, 5)
    _publish_in_segments(gateway, 2, first=6)
    (row,) = collector.json("vault", "status")["nodes"]
    assert (row["last_position"], row["tombstones"], row["trouble"]) == (8, 1, "")
    assert collector.json("vault", "verify") == {"findings": []}
    assert len(list(vault.rglob("*.hxseg"))) == 9

    assert collector.json("vault", "pull", str(mirror)) == {"findings": []}
    assert collector.json("vault", "verify", "--vault", str(mirror)) == {"findings": []}
    reported = collector.ok("vault", "compact", "--older-than", "1d", "--grace", "0")
    assert "5 replaced objects deleted" in reported
    assert len(list(vault.rglob("*.hxseg"))) == 4
    assert len(list(mirror.rglob("*.hxseg"))) == 9
    assert collector.json("vault", "pull", str(mirror)) == {"findings": []}
    names = [sorted(path.name for path in root.rglob("*.hx*")) for root in (vault, mirror)]
    assert names[0] == names[1], "what was deleted goes from the mirror, too"
    assert collector.json("vault", "verify", "--vault", str(mirror)) == {"findings": []}
    wait_until(lambda: gateway.queued() == 0, "everything is acknowledged")
    _delete_beside_the_collector(collector, gateway, mirror)


def _delete_beside_the_collector(collector: Gateway, gateway: Gateway, mirror: Path) -> None:
    """Delete what a gateway has sent; what it sends later lands as before."""
    words, vault = ("vault", "delete", "--author", gateway.author[:16]), collector.state / "vault"
    before = {path.name: path.read_bytes() for path in vault.rglob("*.hx*")}
    would = collector.json(*words, "--dry-run")
    assert (would["deleted"], would["messages"], would["noted"]) == (False, 8, False)
    assert {path.name: path.read_bytes() for path in vault.rglob("*.hx*")} == before, "a dry run writes nothing"
    done = collector.json(*words)
    assert (done["deleted"], done["messages"], done["waiting"], done["noted"]) == (True, 8, 0, True)
    assert collector.ok("vault", "readings") == ""
    log = collector.ok("history", "log", "--json")
    assert f"about to delete all readings of {gateway.author} from the vault" in log
    assert f"deleted all readings of {gateway.author} from the vault: 8 messages" in log
    assert collector.json("vault", "pull", str(mirror)) == {"findings": []}
    for root in (vault, mirror):
        assert collector.json("vault", "verify", "--vault", str(root)) == {"findings": []}
    names = [sorted(path.name for path in root.rglob("*.hx*")) for root in (vault, mirror)]
    assert names[0] == names[1], "it goes from the mirror, too"
    _publish_in_segments(gateway, 1, first=8)
    assert len(collector.ok("vault", "readings").splitlines()) == 1
    assert "would delete readings older than 1 days from the vault: 0 messages" in collector.ok(
        "vault", "retain", "--days", "1", "--dry-run"
    )
    (row,) = collector.json("vault", "status")["nodes"]
    assert (row["last_position"], row["trouble"]) == (9, "")


def test_a_compaction_says_what_is_wrong_with_its_options(new_gateway: Make) -> None:
    gateway = new_gateway("gateway")
    assert "covey vault init" in gateway.fails("vault", "compact", code=1)
    gateway.ok("vault", "init")
    assert gateway.json("vault", "compact")["merged"] == 0, "an empty vault is compact"
    for options in (
        ("--target-size", "many"),
        ("--target-size", "1"),
        ("--target-size", "1GiB"),
        ("--older-than", "-1h"),
        ("--older-than", "7"),
        ("--grace", "99999d"),
    ):
        reported = gateway.fails("vault", "compact", *options, code=2)
        assert options[0] in reported
        assert "hint:" in reported


@pytest.mark.broker
def test_what_a_device_signs_for_receipts_is_proven_by_its_collector_to_a_stranger(
    new_gateway: Make, tmp_path: Path
) -> None:
    collector, gateway = _fleet(new_gateway)
    gateway.ok("publish", "--batch", "5", "--wait", "300", feed=_lines(0, 5))
    gateway.ok("config", "set", "telemetry.receipts", "true")
    gateway.ok("publish", "--batch", "5", "--wait", "300", feed=_lines(5, 10))
    rows = [json.loads(line) for line in collector.ok("vault", "readings", "--json").splitlines()]
    key, file = gateway.json("key", "show")["signing_key"], str(tmp_path / "receipt")
    provable = 0
    for row in rows:
        words = ("prove", row["author"], row["name"], row["time"], file)
        if row["seq"] < max(each["seq"] for each in rows):
            assert "did not sign this reading" in collector.fails(*words, code=1)
            continue
        proven = collector.json(*words)
        assert (proven["value"], proven["time"], proven["index"]) == (row["value"], row["time"], row["index"])
        assert proven["group"] is not None
        stranger = covey("verify", file, key, "--json")
        assert json.loads(stranger.stdout) == {name: proven[name] for name in proven if name != "file"}
        provable += 1
    assert provable == 5


@pytest.mark.broker
def test_a_gateway_lands_by_itself_what_its_collector_does_not_take(new_gateway: Make, tmp_path: Path) -> None:
    collector, gateway = _fleet(new_gateway)
    gateway.ok("publish", "--batch", "5", "--wait", "300", feed=_lines(0, 10))
    collector.end()
    gateway.ok("publish", "--batch", "5", feed=_lines(10, 20))
    assert gateway.queued() == 2
    vault = str(collector.state / "vault")
    assert "covey vault init" in gateway.fails("vault", "push", "--vault", vault, code=1)
    collector.ok("vault", "export-key", str(gateway.state / "vault.key"))
    pushed = gateway.json("vault", "push", "--vault", vault)
    assert pushed["messages"] == 2
    assert gateway.queued() == 0
    assert gateway.json("vault", "push", "--vault", vault)["messages"] == 0
    assert pushed["node"] in {row["node"] for row in collector.json("vault", "status", "--vault", vault)["nodes"]}
    mirror = tmp_path / "mirror"
    assert collector.json("vault", "pull", str(mirror)) == {"findings": []}
    names = [sorted(path.name for path in root.rglob("*.hx*")) for root in (Path(vault), mirror)]
    assert names[0] == names[1], "the mirror has what the vault has, also what was pushed"

    manifest = next(Path(vault).rglob(f"{pushed['node']}.hxman"))
    yesterday = manifest.read_bytes()
    manifest.write_bytes(yesterday[:-1] + bytes([yesterday[-1] ^ 1]))
    assert collector.covey("vault", "status").returncode == 1
    findings = json.loads(collector.covey("vault", "verify", "--json").stdout)["findings"]
    assert [(row["node"], row["code"]) for row in findings] == [(pushed["node"], "decryption")]
    manifest.unlink()
    assert collector.covey("vault", "status").returncode == 1, "a node that was there is not forgotten"
    manifest.write_bytes(yesterday)
    assert collector.json("vault", "verify") == {"findings": []}

    collector.start("collect", "--no-sensors")
    gateway.ok("publish", "--batch", "5", "--wait", "300", feed=_lines(20, 30))
    wait_until(lambda: gateway.queued() == 0, "the link goes on after what was pushed")


@pytest.mark.broker
def test_readings_are_a_table_without_spark(new_gateway: Make, tmp_path: Path) -> None:
    collector, gateway = _fleet(new_gateway)
    assert collector.ok("vault", "readings", "--json") == ""
    mixed = '{"n":"door","vb":true}\n{"n":"said","vs":"\\u001b[31mred\\nline"}\n{"n":"raw","vd":"AAE"}\n'
    gateway.ok("publish", "--batch", "5", "--wait", "300", feed=_lines(0, 12) + mixed)
    table = tmp_path / "readings.ndjson"
    table.write_text(collector.ok("vault", "readings", "--json"))
    sql = (
        "SELECT label, count(*), count(DISTINCT (author, incarnation, seq, index)), sum(value), "
        "max(epoch(time)) FILTER (name = 't'), bool_or(flag), max(text), max(data), max(unit) "
        f"FROM '{table}' GROUP BY ALL"
    )
    (row,) = duckdb.connect().execute(sql).fetchall()
    assert row == ("gateway", 15, 15, 66, 1_790_000_011, True, "\x1b[31mred\nline", "0001", "Cel")

    shown = collector.ok("vault", "readings")
    assert len(shown.splitlines()) == 15
    assert "\x1b" not in shown
    assert "gateway  t  11.0 Cel\n" in shown
    assert len(collector.ok("vault", "readings", "--series", "t").splitlines()) == 12
    assert len(collector.ok("vault", "readings", "--device", "gateway").splitlines()) == 15
    assert len(collector.ok("vault", "readings", "--device", gateway.author[:8]).splitlines()) == 15
    nothing = collector.covey("vault", "readings", "--device", "elsewhere")
    assert (nothing.returncode, nothing.stdout) == (0, "")
    assert "no stored reading matches" in nothing.stderr
    assert len(collector.ok("vault", "readings", "--since", "1h").splitlines()) == 3, "twelve have older times"

    nowhere = tmp_path / "nowhere"
    assert "there is no vault" in collector.fails("vault", "readings", "--vault", str(nowhere), code=78)
    assert not nowhere.exists()

    (segment, *_) = sorted((collector.state / "vault").rglob("*.hxseg"))
    segment.write_bytes(b"nothing")
    partly = collector.covey("vault", "readings", "--json")
    assert partly.returncode == 1
    assert "error: segment 1 of node" in partly.stderr
    assert "hint: 'covey vault verify" in partly.stderr
    assert len(partly.stdout.splitlines()) < 15
