"""Kinds of sensors and doors with their settings, for `covey sensor kinds` and `covey door kinds`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from covey.app.documents import to_json
from covey.cli.output.terminal import print_json, print_table

if TYPE_CHECKING:
    from covey.config.kinds import ListedKind


def print_kinds(kinds: Sequence[ListedKind], *, as_json: bool) -> None:
    """Print a table with a row for each setting of each kind."""
    if as_json:
        print_json([to_json(each) for each in kinds])
        return
    rows: list[tuple[object, ...]] = []
    for each in kinds:
        rows.append((each.kind, "", each.about, ""))
        rows += [("", key, meaning, default) for key, meaning, default in each.settings]
    print_table(("kind", "setting", "meaning", "default"), rows)
