"""Follow the change feed of tables: `python -m tests.spark.follower TABLES FILE`.

Takes in what came since the last call, which FILE says, and adds it up there: how often each reading was inserted, less
how often it was deleted. Where the feed cannot be read now, nothing changes, and the next call tries again. A process
of its own: the library lets no other thread of a process run meanwhile, and the store may be one of them.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

_KEY = ("author", "incarnation", "seq", "index")
_COUNTS = {"insert": 1, "delete": -1}


def seen(file: Path) -> Counter[str]:
    """Return how often each reading was seen, by its key."""
    return Counter(json.loads(file.read_text())["seen"]) if file.exists() else Counter()


def follow(tables: str, file: Path) -> None:
    """Take in what is new."""
    counts = seen(file)
    start = json.loads(file.read_text())["next"] if file.exists() else 0
    try:
        table = DeltaTable(f"{tables}/readings")
        newest = table.version()
        if newest < start:
            return
        changes = pa.table(table.load_cdf(starting_version=start, ending_version=newest).read_all())
    except (DeltaError, OSError, pa.ArrowException) as error:
        print(f"not now: {error}", file=sys.stderr)
        return
    for row in changes.select([*_KEY, "_change_type"]).to_pylist():
        counts[" ".join(str(row[name]) for name in _KEY)] += _COUNTS.get(row["_change_type"], 0)
    new = file.with_suffix(".new")
    new.write_text(json.dumps({"next": newest + 1, "seen": counts}))
    new.replace(file)


if __name__ == "__main__":
    follow(sys.argv[1], Path(sys.argv[2]))
