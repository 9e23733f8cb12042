"""Which micro-batches are committed: those that have a folder in `readings`.

Their numbers follow each other. So whoever knows the newest one, and the last that it has taken in, asks for those in
between by name: after years a folder of tables may have a hundred thousand entries, and is listed at a start and when
something has to be made anew, but not for each micro-batch. Merging, and the removal of what is empty, take folders
away: where one is missing in between, all are listed.
"""

from __future__ import annotations

import os
from pathlib import Path


def batch_folder(tables: Path, table: str, number: int) -> Path:
    """Return where a micro-batch's part of a table lies once it is committed."""
    return tables / table / f"batch={number}"


def is_committed(tables: Path, number: int) -> bool:
    """Say whether the micro-batch has a folder."""
    return batch_folder(tables, "readings", number).is_dir()


def committed_after(tables: Path, last: int, newest: int | None = None) -> list[int]:
    """Return the micro-batches after `last`, ascending; without a listing where the caller knows the newest one."""
    if newest is not None:
        between = range(last + 1, newest + 1)
        if all(os.path.isdir(f"{tables}/readings/batch={number}") for number in between):  # noqa: PTH112 - often asked
            return [*between]
    return sorted(number for number in folder_numbers(tables / "readings") if number > last)


def folder_numbers(table: Path) -> set[int]:
    """Return the numbers of all folders of a table."""
    return {int(folder.name.removeprefix("batch=")) for folder in listed(table, "batch=*")}


def listed(table: Path, pattern: str) -> list[Path]:
    """List what is in a table's folder, all of it: in between `merging` may put another in its place and remove it."""
    while table.is_dir():
        inode, found = table.stat().st_ino, sorted(table.glob(pattern))
        if inode == table.stat().st_ino:
            return found
    return []
