"""A device of `tests/fleet.py` whose state is opened as the commands open it: saved if damaged, renewed if restored."""

from __future__ import annotations

import shutil
from pathlib import Path

from covey.adapters.sqlite.file.high_water import FallBack
from covey.adapters.sqlite.file.salvage_report import SalvageReport
from covey.adapters.sqlite.file.state_file import StateFile
from covey.adapters.sqlite.store import SqliteStore
from covey.core.ids import Place
from covey.core.link.state import LinkState
from covey.core.node import Node
from covey.errors import DamagedStateError, RemoteError
from tests.fleet import Device

_STARTS = 3
"""Damage may show only when it is read; then the next start saves what is left."""


class DurableDevice(Device):
    """Restarts as the agent under its supervisor does."""

    def __init__(self, name: str, folder: Path, *, collects: bool = False) -> None:
        self.reports: list[SalvageReport] = []
        self.fall_backs: list[FallBack] = []
        super().__init__(name, folder, collects=collects)

    def _open(self) -> SqliteStore:
        """Open the state, whatever has happened to it."""
        store, reports = StateFile(self.path).open(self.identity, self.outbox_bytes)
        for each in reports:
            if isinstance(each, FallBack):
                self.fall_backs.append(each)
            else:
                self.reports.append(each)
        return store

    def make_node(self, state: LinkState | None = None) -> Node:
        """Return a node, if the state can be read that far."""
        try:
            return super().make_node(state)
        except (DamagedStateError, RemoteError, ValueError) as error:
            self.stop()
            raise DamagedStateError(str(error)) from error

    @classmethod
    def after_damage(cls, name: str, folder: Path) -> DurableDevice:
        """Start, read all there is, and start again where that showed damage: as often as it may be needed."""
        for _ in range(_STARTS):
            try:
                device = cls(name, folder)
            except DamagedStateError:
                StateFile(folder / name).note_damage()
                continue
            try:
                device.read_everything()
            except DamagedStateError:
                StateFile(folder / name).note_damage()
                device.stop()
            else:
                return device
        raise AssertionError("the agent does not start")

    def read_everything(self) -> None:
        """Do what the first minutes of an agent read."""
        with self.store.transaction():
            self.node.maintain(self.now)
        for recipient in self.store.outbox.recipients():
            self.store.outbox.queued(recipient, Place(0), 1_000_000, 1_000_000_000)
        self.inbox()

    def files(self) -> dict[str, bytes]:
        """Return the state as it lies on the disk."""
        return {path.name: path.read_bytes() for path in self.path.parent.glob(f"{self.path.name}*")}

    def put_files(self, files: dict[str, bytes], *, in_place: bool = False) -> None:
        """Put an earlier state back: as new files, or `in_place`, as an image of the whole disk does.

        Whatever an image brings back is as it was, inodes and times, too; so what is as it was is left alone.
        """
        for path in self.path.parent.glob(f"{self.path.name}*"):
            if path.name not in files:
                path.unlink()
        for name, content in files.items():
            path = self.path.parent / name
            if in_place and path.exists() and path.read_bytes() == content:
                continue
            written = path if in_place else path.with_name(f"new-{name}")  # beside the old one: never its inode
            written.write_bytes(content)
            written.rename(path)


def folder_for(parent: Path, name: str) -> Path:
    """Return an empty folder."""
    folder = parent / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder
