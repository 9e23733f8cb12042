"""The kinds of files that are damaged, and who judges what becomes of each.

Each kind prepares sound files once. A case copies them into a folder of its own, damages one, does what a start of the
agent, the hub or the tables' engine does, and says what came of it:

    restored   everything is as it was;
    reported   something is lost, and the product says so;
    unread     the file is not used until it is needed, and nothing has changed.

Anything else raises `WrongError`: a crash, a value that was never written, or a loss that nothing reports.
"""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from bench.rot.damages import damage
from covey.adapters.configuration_files import ConfigurationFiles
from covey.adapters.keys.storage_key import StorageKey
from covey.adapters.keys.vault_key_file import VaultKeyFile
from covey.adapters.sqlite.door_file import DoorFile, set_aside
from covey.adapters.sqlite.file.groups_copy import CopiedGroup, GroupsCopy
from covey.adapters.sqlite.file.state_file import StateFile
from covey.adapters.state_folder import StateFolder
from covey.app.telemetry.mending import VaultMending
from covey.core.ids import GroupId, node_id
from covey.core.telemetry.batch import split_number
from covey.core.telemetry.doors import DoorGap, LandedPosition
from covey.core.vault import documents
from covey.core.vault.documents import SegmentEntry
from covey.core.vault.landed_records import RecordKind, record_kind
from covey.core.wire.message import Loss, Message, MessageType, read_message
from covey.errors import ConfigurationError, DamagedStateError, StorageError
from covey.limits.vault import VAULT_LOOK_US, VAULT_NEWEST_LOOKS
from tests.durable import DurableDevice
from tests.fleet import carry, found
from tests.vault_site import KEY, Objects, Site


class WrongError(Exception):
    """What the product must not do after a damage."""


class Kind(Protocol):
    """One kind of files."""

    def case(self, folder: Path, chance: random.Random) -> tuple[str, str]:
        """Damage, start and judge; return which file was damaged how, and what came of it.

        Raises:
            WrongError: the product did what it must not.
        """


def _copied(source: Path, folder: Path) -> Path:
    target = folder / source.name
    shutil.copytree(source, target)
    return target


class State:
    """A device's database with its log, marks and copies, while 80 messages wait or are under way."""

    def __init__(self, folder: Path) -> None:
        ann, ben = DurableDevice("ann", folder), DurableDevice("ben", folder)
        self._group_id = found(ben, ann)
        self._expected = [b"%d " % number + random.Random(number).randbytes(300) for number in range(40)]
        for number in range(10):
            ben.blob(self._group_id, b"to ann %d" % number)
        carry(ann, ben)
        ann.store.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        for content in self._expected:
            ann.blob(self._group_id, content)
        self._hot, self._ben = ann.files(), ben.files()
        ann.stop()
        ben.stop()
        self._folded = ann.files()

    def case(self, folder: Path, chance: random.Random) -> tuple[str, str]:
        """Start after a damage of the database, its log, the second copy of its groups, or its high-water mark."""
        files = self._hot if chance.random() < 0.4 else self._folded
        for name, content in {**files, **self._ben}.items():
            (folder / name).write_bytes(content)
        names = [each for each in files if files[each] and not each.endswith(("-lock", "-shm"))]
        victim = chance.choice(["ann", *names])
        how = damage(folder / victim, chance)
        if victim == "ann" and how == "gone":
            how = "empty"
            (folder / victim).touch()
        ben = DurableDevice("ben", folder)
        ann = DurableDevice.after_damage("ann", folder)
        label = f"state {victim.removeprefix('ann') or 'database'} {how}"
        try:
            try:
                return label, self._live_on(ann, ben, b"after")
            except DamagedStateError:  # an agent notes it, ends, and is started by its supervisor
                StateFile(ann.path).note_damage()
                ann.stop()
                ann = DurableDevice.after_damage("ann", folder)
                return label, self._live_on(ann, ben, b"later")
        finally:
            ann.stop()
            ben.stop()

    def _live_on(self, ann: DurableDevice, ben: DurableDevice, last: bytes) -> str:
        if [each.group_id for each in ann.node.groups.joined()] != [self._group_id]:
            raise WrongError("the device is in no group")
        ann.blob(self._group_id, last)
        for _ in range(8):
            carry(ann, ben)
            ann.wait(700)
            with ann.store.transaction():
                ann.node.maintain(ann.now)
        inbox = Counter(ben.inbox())
        if strange := set(inbox) - {*self._expected, b"after", b"later"}:
            raise WrongError(f"{len(strange)} messages that nobody wrote")
        if max(inbox.values()) > 1:
            raise WrongError("a message came twice")
        if inbox[last] != 1:
            raise WrongError("the device sends nothing more")
        missing = len({*self._expected} - set(inbox))
        said = ben.store.counters.values().get("lost_messages", 0)
        if missing and not (ann.reports or ann.fall_backs or said >= missing):
            raise WrongError(f"{missing} messages are missing, and nothing says so")
        return "reported" if missing else "restored"


class Keys:
    """The device's identity and noise keys, with the copy of each."""

    def __init__(self, folder: Path) -> None:
        self._sound = folder / "state"
        state = StateFolder.at(self._sound)
        state.create({})
        self._keys = state.identity().keys

    def case(self, folder: Path, chance: random.Random) -> tuple[str, str]:
        """Read the keys after a damage of one of the four files, or of both of a pair."""
        state = StateFolder.at(_copied(self._sound, folder))
        name = chance.choice(("identity.key", "noise.keys"))
        victims = chance.choice(((name,), (f"{name}.copy",), (name, f"{name}.copy")))
        how = [damage(state.path / victim, chance) for victim in victims]
        label = f"keys {'both' if len(victims) > 1 else victims[0]} {how[0]}"
        try:
            keys = state.identity().keys
        except (ConfigurationError, StorageError) as error:
            if len(victims) == 1:
                raise WrongError(f"a whole copy was not used: {error}") from error
            return label, "reported"
        if keys.signing_public != self._keys.signing_public:
            raise WrongError("the device has another identity")
        if len(victims) == 1 and keys != self._keys:
            raise WrongError("the device has other noise keys, although a copy was whole")
        return label, "restored" if keys == self._keys else "reported"


def _storage_key() -> StorageKey:
    return StorageKey(bytes(32))


class VaultKeys:
    """The vault's key file with its copy."""

    def __init__(self, folder: Path) -> None:
        self._sound = folder
        file = VaultKeyFile(folder / "vault.key", _storage_key)
        file.draw(1)
        self._content = file.read()

    def case(self, folder: Path, chance: random.Random) -> tuple[str, str]:
        """Read the key after a damage of one of the two files, or of both."""
        path = _copied(self._sound, folder) / "vault.key"
        victims = chance.choice((("vault.key",), ("vault.key.copy",), ("vault.key", "vault.key.copy")))
        how = [damage(path.with_name(victim), chance) for victim in victims]
        label = f"vault key {'both' if len(victims) > 1 else victims[0]} {how[0]}"
        try:
            content = VaultKeyFile(path, _storage_key).read()
        except (ConfigurationError, StorageError) as error:
            if len(victims) == 1:
                raise WrongError(f"a whole copy was not used: {error}") from error
            return label, "reported"
        if content != self._content:
            raise WrongError("the vault has another key")
        return label, "restored"


class Groups:
    """The second copy of manifests and secrets."""

    def __init__(self, folder: Path) -> None:
        self._path, self._key = folder / "groups", StorageKey(bytes(32))
        self._group = CopiedGroup(GroupId(bytes(32)), (b"one" * 300, b"two"), ((b"epoch", b"secret" * 5),))
        GroupsCopy(self._path, self._key).write([self._group])

    def case(self, folder: Path, chance: random.Random) -> tuple[str, str]:
        """Read it after a damage: it says what was written, or nothing."""
        path = folder / "groups"
        shutil.copyfile(self._path, path)
        how = damage(path, chance)
        read = GroupsCopy(path, self._key).read()
        if read not in ([], [self._group]):
            raise WrongError("another group than was written")
        return f"copy of groups {how}", "reported" if not read else "restored"


class Configuration:
    """The configuration with its copy."""

    def __init__(self, folder: Path) -> None:
        (folder / "identity.key").touch()
        self._sound = folder
        files = ConfigurationFiles(folder / "config.toml", folder / "ordered.json")
        files.create({"telemetry.batch_seconds": 42.0, "label": "pump 3"})
        files.restored()

    def case(self, folder: Path, chance: random.Random) -> tuple[str, str]:
        """Start after a damage of the file or of its copy."""
        target = folder / "state"
        shutil.copytree(self._sound, target, copy_function=shutil.copy2)
        victim = chance.choice(("config.toml", "config.toml.copy"))
        path = target / victim
        status = path.stat()
        how = damage(path, chance)
        if path.exists():
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        files = ConfigurationFiles(target / "config.toml", target / "ordered.json")
        try:
            read = files.restored()
        except (ConfigurationError, StorageError) as error:
            raise WrongError(f"the agent does not start: {error}") from error
        if (read.telemetry.batch_seconds, read.label) != (42.0, "pump 3"):
            raise WrongError("another setting than was written")
        return f"{victim} {how}", "restored"


class Doors:
    """What doors remember of how far each has come."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "doors.sqlite"
        file = DoorFile(self._path)
        file.begin("cloud", {f"{number:02x}": number for number in range(40)}, 1)
        for number in range(1, 60, 2):
            file.passed("cloud", DoorGap("aa", number, number, "missing"), LandedPosition(number + 1), number)
        self._places = self._read(file)
        file.close()

    @staticmethod
    def _read(file: DoorFile) -> list[object]:
        return [file.place("cloud", f"{number:02x}") for number in range(40)] + [file.state("cloud")]

    def case(self, folder: Path, chance: random.Random) -> tuple[str, str]:
        """Open it after a damage, as the role of doors does."""
        path = folder / self._path.name
        for each in self._path.parent.glob(f"{self._path.name}*"):
            shutil.copyfile(each, folder / each.name)
        how = damage(path, chance)
        label = f"doors {how}"
        if how == "gone" or set_aside(path) is not None:
            return label, "reported"
        file = DoorFile(path)
        try:
            places = self._read(file)
        finally:
            file.close()
        if places != self._places:
            changed = [pair for pair in zip(self._places, places, strict=True) if pair[0] != pair[1]]
            raise WrongError(f"a door has another state than it had: {changed[:2]}")
        return label, "unread"


class Segments:
    """A collector's vault, while senders or a copy may still have what a damaged segment held."""

    _CASES_OF_ONE = 20

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._cases = 0
        self._begin()

    def _begin(self) -> None:
        folder = self._folder / str(self._cases)
        folder.mkdir()
        self._site = Site(folder)
        self._sent: set[bytes] = set()
        self._numbers: dict[int, bytes] = {}
        self._lost_ever = set[int]()
        for _ in range(3):
            self._send()
        self._copy = Objects()
        self._mending = VaultMending(
            self._site.collector,
            self._site.gate.store,
            [("copy", lambda: self._copy)],
            lambda _level, line: self._site.said.append(line),
        )

    def _send(self) -> None:
        self._site.send(b"%d" % len(self._sent))
        self._site.land()
        self._site.ann.wait(400)
        carry(self._site.ann, self._site.gate)
        new = self._whole() - self._sent
        self._numbers |= {split_number(read_message(raw).body)[0]: raw for raw in new}
        self._sent |= new

    def case(self, folder: Path, chance: random.Random) -> tuple[str, str]:
        """Let the collector look through its vault after a damage of a segment."""
        self._cases += 1
        if self._cases % self._CASES_OF_ONE == 0:
            shutil.rmtree(
                self._folder / str(self._cases // self._CASES_OF_ONE * self._CASES_OF_ONE - self._CASES_OF_ONE)
            )
            self._begin()
        site = self._site
        self._send()
        has_copy, forgotten = chance.random() < 0.3, chance.random() < 0.3
        self._copy.content = dict(site.objects.content) if has_copy else {}
        if forgotten:
            with site.ann.store.transaction():
                site.ann.store.database.run("DELETE FROM acknowledged_message")
        key = chance.choice([each for each in site.objects.content if each.endswith(".hxseg")])
        file = folder / "segment"
        file.write_bytes(site.objects.content[key])
        how = damage(file, chance)
        was_whole, reports = key in self._whole_keys(), len(site.said)
        if file.exists():
            site.objects.content[key] = file.read_bytes()
        else:
            del site.objects.content[key]
        for _ in range(VAULT_NEWEST_LOOKS + 1):
            self._mending.turn(site.gate.node, site.gate.now)
            site.gate.wait(VAULT_LOOK_US / 1e6)
            site.ann.wait(400)
            carry(site.ann, site.gate)
            site.land()
        whole = self._whole()
        if whole - self._sent:
            raise WrongError("a message that nobody signed")
        self._lost_ever |= self._lost()  # a record stays told, also where its segment is damaged later
        lost = {self._numbers[number] for number in self._lost_ever}
        if missing := self._sent - whole - lost:
            raise WrongError(f"{len(missing)} messages are missing, and no record names them")
        if was_whole and len(site.said) == reports:
            raise WrongError("nothing was said")
        if has_copy and was_whole and self._copy.content[key] != site.objects.content.get(key):
            raise WrongError("a copy had it")
        return f"segment {how}", "reported" if self._sent - whole else "restored"

    def _entries(self) -> Iterator[tuple[str, SegmentEntry]]:
        manifest, node = self._site.manifest(), node_id(self._site.gate.key)
        for entry in manifest.segments if manifest else ():
            yield documents.entry_key(KEY.vault_id, node, entry), entry

    def _whole_keys(self) -> set[str]:
        content = self._site.objects.content
        return {key for key, entry in self._entries() if documents.is_segment(entry, content.get(key, b""))}

    def _messages(self) -> Iterator[Message]:
        node, whole = node_id(self._site.gate.key), self._whole_keys()
        for key, entry in self._entries():
            if key in whole:
                content = self._site.objects.content[key]
                for each in documents.open_segment(self._site.ring.for_object(content), node, entry, content):
                    if record_kind(each.message) is RecordKind.MESSAGE:
                        yield read_message(each.message)

    def _whole(self) -> set[bytes]:
        return {each.raw for each in self._messages() if each.type is MessageType.TELEMETRY}

    def _lost(self) -> set[int]:
        losses = (Loss.from_wire(each.body) for each in self._messages() if each.type is MessageType.LOSS)
        return {number for loss in losses for first, last in loss.numbers for number in range(first, last + 1)}


class Tables:
    """Tables in a folder: every file that an engine leaves there."""

    _MESSAGES = 6
    _STARTS = 0.2

    def __init__(self, folder: Path) -> None:
        from covey_ingest.committer import delta_log
        from covey_ingest.committer.deleting import delete, of_author
        from covey_ingest.committer.table_locations import location_at
        from tests.tables_driver import Driver

        authors = ("a" * 64, "b" * 64)
        merging, delta_log.BATCHES_PER_MERGE = delta_log.BATCHES_PER_MERGE, 4
        Driver(folder / "committer", str(folder / "tables"), sizes=[1], authors=authors).run(self._MESSAGES - 1)
        delta_log.BATCHES_PER_MERGE = merging
        location = location_at(str(folder / "tables"))
        delete(location, of_author(authors[1]), lambda before: before.with_author(authors[1], 1))
        Driver(folder / "committer", str(folder / "tables"), sizes=[1], authors=authors[:1]).run(self._MESSAGES)
        self._sound = folder / "tables"
        (self._sound / ".lock").unlink()
        self._names = [str(each.relative_to(self._sound)) for each in self._sound.rglob("*") if each.is_file()]
        self._rows = self._read(self._sound)

    @staticmethod
    def _read(tables: Path) -> dict[str, list[str]]:
        """Return the rows of the tables, those of readings by way of the ranges that their log has of each file."""
        import pyarrow.compute as pc
        from deltalake import DeltaTable

        found = {}
        for name in ("readings", "losses", "rollups", "devices"):
            rows = DeltaTable(f"{tables}/{name}").to_pyarrow_dataset()
            where = pc.field("seq") > 0 if name == "readings" else None
            columns = [each for each in rows.schema.names if each != "batch"]
            found[name] = sorted(map(repr, rows.to_table(columns, filter=where).to_pylist()))
        return found

    def case(self, folder: Path, chance: random.Random) -> tuple[str, str]:
        """Damage one file; then do what an engine does every half minute, and some times start one."""
        from covey_ingest.committer.table_locations import location_at
        from covey_ingest.committer.tables import ALL_TABLES
        from covey_ingest.committer.verifying import verified

        tables = _copied(self._sound, folder)
        victim = tables / chance.choice(self._names)
        how = damage(victim, chance)
        label = f"table {_part(victim.relative_to(tables))} {how}"
        found = [each for each in verified(location_at(str(tables)), ALL_TABLES, restores=True) if each.problem]
        if any(not each.restored for each in found):
            return label, "reported"
        if self._read(tables) != self._rows:
            raise WrongError("other rows, and nothing says so")
        if chance.random() < self._STARTS:
            self._start(folder, tables)
        return label, "restored" if found else "unread"

    def _start(self, folder: Path, tables: Path) -> None:
        from tests.tables_driver import Driver

        Driver(folder / "committer", str(tables), sizes=[1], authors=("a" * 64,)).run(self._MESSAGES + 1)
        rows = self._read(tables)
        for name in ("readings", "losses", "rollups"):
            if not {*rows[name]} > {*self._rows[name]}:
                raise WrongError(f"an engine that starts makes other {name}")


def _part(path: Path) -> str:
    """Return which part of the tables a file is."""
    name = path.parts[0]
    if name in {"copies", "state"} or len(path.parts) == 1:
        return name
    if path.parts[1] == "_delta_log":
        return "checkpoint" if "checkpoint" in path.name else "entry"
    return "rows"


KINDS: dict[str, tuple[int, Callable[[Path], Kind]]] = {
    "state": (4, State),
    "keys": (20, Keys),
    "vault keys": (15, VaultKeys),
    "groups": (20, Groups),
    "configuration": (15, Configuration),
    "doors": (15, Doors),
    "segments": (6, Segments),
    "tables": (5, Tables),
}
"""Each kind with its share of the cases, in percent."""
