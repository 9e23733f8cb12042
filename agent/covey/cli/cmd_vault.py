"""`covey vault init|status|push|pull|verify|compact|export-key|rotate-key`: looking after a vault and its keys."""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from covey.app.device import Device
from covey.cli.device_options import open_device
from covey.cli.grammar import Parser, json_option
from covey.cli.quantities import read_bytes, read_us
from covey.cli.terminal import count, print_json, print_table
from covey.core.ids import node_id
from covey.errors import LocalError, UsageError
from covey.limits.vault import MAXIMUM_SEGMENT_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from covey.app.roles.vault_survey import NodeState, Progress, VaultFinding, VaultSurvey
    from covey.ports import ObjectStore

_LONGEST_US = 3_650 * 86_400_000_000

_SEEN_FOLDER = "vault-seen"
"""In the state folder: the last good manifest of each node that this device has looked at."""


def add_arguments(parser: Parser) -> None:
    """Add this command's actions."""
    actions = parser.add_actions()
    init = actions.add("init", _init, "draw the vault's id and key, and say where it lies")
    status = actions.add("status", _status, "show what each node has put into the vault")
    verify = actions.add("verify", _verify, "open everything, and verify every signature")
    pull = actions.add(
        "pull", _pull, "mirror the vault into a directory or another store; goes on where it was interrupted"
    )
    pull.add_argument("destination", metavar="WHERE", help="a directory or s3://BUCKET/PREFIX")
    compact = actions.add(
        "compact", _compact, "merge this device's small segments, and delete what was replaced long ago"
    )
    _add_compaction(compact)
    push = actions.add("push", _push, "land what waits here for a collector as segments of this device's own")
    export = actions.add("export-key", _export_key, "write a copy of the keys for the ingest, mode 0600")
    export.add_argument("file", metavar="FILE", help="the file to write")
    actions.add("rotate-key", _rotate_key, "seal what lands from now on with a new key")
    for action in (init, status, verify, pull, compact, push):
        action.add_argument(
            "--vault", metavar="WHERE", help="a directory or s3://BUCKET/PREFIX (default: vault.location)"
        )
    for action in (status, verify, pull):
        action.add_argument("--scan", action="store_true", help="list the vault for nodes that no group names")
    for action in parser.actions.values():
        json_option(action)


def _add_compaction(action: Parser) -> None:
    action.add_argument("--target-size", metavar="SIZE", default="4MiB", help="merge up to this size (default: 4MiB)")
    action.add_argument("--older-than", metavar="TIME", default="1h", help="merge what is older (default: 1h)")
    action.add_argument(
        "--grace", metavar="TIME", default="7d", help="delete what was replaced longer ago than this (default: 7d)"
    )
    action.add_argument("--dry-run", action="store_true", help="only say what would be done")


def _init(options: argparse.Namespace) -> int:
    from covey.adapters.objects.location import absolute_location

    with open_device(options) as device:
        fresh = not device.folder.vault_key_path.exists()
        if options.vault:
            device.folder.change_config({"vault.location": absolute_location(options.vault)})
        location = options.vault or device.config.vault.location
        _open_store(device, options.vault)
        keys = device.folder.vault_keys()
        shown = {"vault_id": keys.vault_id.hex(), "location": location, "key_file": str(device.folder.vault_key_path)}
    if options.json:
        print_json(shown | {"new": fresh})
        return 0
    print(f"vault {shown['vault_id']} at {location}{'' if fresh else ' (it was here already)'}")
    print(f"  keys  {shown['key_file']}: whoever has this file reads the vault; covey vault export-key makes a copy")
    return 0


def _status(options: argparse.Namespace) -> int:
    with _survey(options) as (device, survey):
        states = list(survey.states(_nodes(device, survey, options.scan)))
        waiting = device.store.landing.size()
        now_us = device.clock.wall_us()
    rows = [_status_row(state, now_us) for state in states]
    troubled = any(state.trouble not in {"", "missing"} for state in states)
    if options.json:
        print_json({"nodes": rows, "waiting_bytes": waiting})
        return 1 if troubled else 0
    if rows:
        print_table(
            ["node", "manifest", "segments", "bytes", "newest", "tombstones", "trouble"],
            [list(row.values()) for row in rows],
        )
    print(f"arrived, and waiting to be landed by this device: {count(waiting, 'byte')}")
    return 1 if troubled else 0


def _status_row(state: NodeState, now_us: int) -> dict[str, object]:
    manifest = state.manifest
    newest = None
    if manifest is not None and manifest.segments:
        newest = max(0, (now_us - manifest.segments[-1].created_at_us) // 1_000_000)
    return {
        "node": state.node,
        "manifest_seq": manifest.manifest_seq if manifest else 0,
        "segments": manifest.last_number if manifest else 0,
        "listed_bytes": sum(entry.size for entry in manifest.segments) if manifest else 0,
        "newest_seconds": newest,
        "tombstones": len(manifest.tombstones) if manifest else 0,
        "trouble": state.trouble,
    }


def _verify(options: argparse.Namespace) -> int:
    with _survey(options) as (device, survey), _progress("verified") as progress:
        findings = list(survey.verify(_nodes(device, survey, options.scan), progress))
    return _tell(findings, options.json, "everything that is listed opens, and every signature verifies")


def _pull(options: argparse.Namespace) -> int:
    from covey.adapters.objects.location import open_object_store

    with _survey(options) as (device, survey), _progress("fetched") as progress:
        mirror = open_object_store(options.destination, Path.cwd())
        findings = list(survey.pull(_nodes(device, survey, options.scan), mirror, progress))
    return _tell(findings, options.json, f"{options.destination} has what the vault has")


def _compact(options: argparse.Namespace) -> int:
    import secrets

    from covey.app.roles.compactor import Compactor
    from covey.app.roles.node_vault import NodeVault

    target = read_bytes("--target-size", options.target_size, 4_096, MAXIMUM_SEGMENT_BYTES // 2)
    older = read_us("--older-than", options.older_than, _LONGEST_US)
    grace = read_us("--grace", options.grace, _LONGEST_US)
    with open_device(options) as device, _progress("merged") as progress:
        _require_keys(device)
        store, identity = device.store, device.node.identity
        objects = _open_store(device, options.vault)
        node = NodeVault(identity, device.folder.vault_keys, store, objects, secrets.token_bytes)
        compactor = Compactor(node, store, secrets.token_bytes)
        now_us = device.clock.wall_us()
        if options.dry_run:
            outcome = compactor.plan(target, now_us - older, grace, now_us)
        else:
            outcome = compactor.compact(target, now_us - older, grace, now_us, progress)
    if options.json:
        print_json({"dry_run": options.dry_run} | dataclasses.asdict(outcome))
    else:
        would = "would be " if options.dry_run else ""
        print(f"{count(outcome.segments, 'segment')} {would}merged into {outcome.merged}")
        print(f"{count(outcome.deleted, 'replaced object')} {would}deleted")
        print(f"waiting for the end of their grace time: {count(outcome.waiting, 'replaced object')}")
        for number in outcome.unreadable:
            print(f"segment {number} is damaged or missing: nothing beside it was merged", file=sys.stderr)
    return 1 if outcome.unreadable else 0


def _push(options: argparse.Namespace) -> int:
    import secrets

    from covey.app.roles.collector import Collector
    from covey.core.now import Now

    with open_device(options) as device, _progress("pushed") as progress:
        _require_keys(device)
        keys, objects = device.folder.vault_keys, _open_store(device, options.vault)
        identity = device.node.identity
        collector = Collector(identity, keys, device.store, objects, secrets.token_bytes, 0, lambda *_: None)
        now = Now(device.clock.monotonic_us(), device.clock.wall_us())
        name = node_id(identity.signing_public).hex()
        pushed = collector.push(device.node, now, lambda done: progress(name, done, done))
    if options.json:
        print_json({"messages": pushed, "node": name})
    else:
        print(f"{count(pushed, 'message')} landed as node {name}")
    return 0


def _tell(findings: list[VaultFinding], as_json: bool, well: str) -> int:
    rows = [{"node": each.node, "segment": each.segment, "code": each.code, "reason": each.reason} for each in findings]
    if as_json:
        print_json({"findings": rows})
    elif rows:
        print_table(["node", "segment", "code", "reason"], [list(row.values()) for row in rows])
    else:
        print(well)
    return 1 if rows else 0


def _export_key(options: argparse.Namespace) -> int:
    from covey.adapters.keys.key_file import write_secret
    from covey.core.vault.keys import key_file_text

    target = Path(options.file).absolute()
    with open_device(options) as device:
        _require_keys(device)
        keys = device.folder.vault_keys()
    if target.exists():
        raise UsageError(f"{options.file} is there already", hint="name another file, or remove it")
    write_secret(target, key_file_text(*keys.keys).encode())
    if options.json:
        print_json({"file": str(target), "vault_id": keys.vault_id.hex(), "keys": len(keys.keys)})
    else:
        print(f"{count(len(keys.keys), 'key')} of vault {keys.vault_id.hex()} in {target}")
    return 0


def _rotate_key(options: argparse.Namespace) -> int:
    with open_device(options) as device:
        _require_keys(device)
        keys = device.folder.rotate_vault_key()
    if options.json:
        print_json({"vault_id": keys.vault_id.hex(), "key_id": keys.newest.key_id.hex(), "keys": len(keys.keys)})
    else:
        print(f"the next segment is sealed with key {keys.newest.key_id.hex()}; {len(keys.keys) - 1} older kept")
        print("hint: covey vault export-key gives the ingest the new one too", file=sys.stderr)
    return 0


def _require_keys(device: Device) -> None:
    if not device.folder.vault_key_path.exists():
        raise LocalError(
            "this device has no vault key", hint="covey vault init, or put the collector's vault.key in its place"
        )


def _open_store(device: Device, location: str | None) -> ObjectStore:
    from covey.adapters.objects.location import open_object_store

    base = Path.cwd() if location else device.folder.path
    return open_object_store(location or str(device.config.vault.location), base)


@contextmanager
def _survey(options: argparse.Namespace) -> Iterator[tuple[Device, VaultSurvey]]:
    from covey.adapters.objects.folder import DirectoryStore
    from covey.app.roles.vault_survey import StoreMemory, VaultSurvey

    with open_device(options) as device:
        _require_keys(device)
        keys = device.folder.vault_keys()
        memory = StoreMemory(DirectoryStore(device.folder.path / _SEEN_FOLDER), keys.vault_id)
        yield device, VaultSurvey(_open_store(device, options.vault), keys, memory)


def _nodes(device: Device, survey: VaultSurvey, scan: bool) -> Iterable[str]:
    """Return the nodes to look at: this device and the collectors of its groups, without listing; all with `--scan`."""
    from covey.core.group.manifest import COLLECTOR

    if scan:
        return survey.listed_nodes()
    collectors = {device.node.identity.signing_public} | {
        member.keys.signing_public
        for group in device.node.membership.groups()
        for member in group.with_capability(COLLECTOR)
    }
    return sorted(node_id(key).hex() for key in collectors)


@contextmanager
def _progress(verb: str) -> Iterator[Progress]:
    """Tell a person at a terminal how far it is, at most ten times a second."""
    told = 0.0

    def tell(node: str, done: int, of: int) -> None:
        nonlocal told
        if sys.stderr.isatty() and (done == of or time.monotonic() - told > 0.1):
            told = time.monotonic()
            print(f"\r\033[K{node[:8]}: {done} of {of} {verb}", end="", file=sys.stderr, flush=True)

    yield tell
    if told:
        print(file=sys.stderr)
