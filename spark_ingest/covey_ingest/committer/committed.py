"""The micro-batches recorded as committed in the committer's folder: those with a folder in `readings`.

Their numbers follow each other. So code that knows the newest one, and the last that it has applied, asks for those in
between by name, and lists the folder only at a start.
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
    return {int(folder.name.removeprefix("batch=")) for folder in table.glob("batch=*")}
