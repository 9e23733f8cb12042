"""The report on a damaged database, and the recovered file's name until it is in place."""

from __future__ import annotations

from dataclasses import dataclass, field

COMPLETE = ".salvaged"
"""Ends the name of a salvaged database that is whole and not in place yet."""


@dataclass(frozen=True, slots=True)
class SalvageReport:
    """What was saved. `lost` counts rows that were there and are no good; None where nobody can count them."""

    aside: str
    saved: dict[str, int] = field(default_factory=dict)
    lost: dict[str, int | None] = field(default_factory=dict)
    restored: int = 0
    """Groups of which something was taken from the second copy (`groups_copy.py`)."""

    def line(self) -> str:
        """Return it for people."""
        parts = [f"{count} {name}" for name, count in self.saved.items() if count]
        lost = [f"{'unknown' if count is None else count} {name}" for name, count in self.lost.items() if count != 0]
        copied = (
            f"; from the second copy: {self.restored} group{'' if self.restored == 1 else 's'}" if self.restored else ""
        )
        kept = f"; the damaged file is kept as {self.aside}" if self.aside else ""
        return (
            f"the state database was damaged; saved: {', '.join(parts) or 'nothing'}; "
            f"lost: {', '.join(lost) or 'nothing'}{copied}{kept}"
        )
