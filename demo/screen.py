"""The demo's output: a live line on a terminal, otherwise a plain line now and then; a table at the end."""

from __future__ import annotations

import time
from dataclasses import dataclass

from rich.console import Console
from rich.status import Status
from rich.table import Table

_PLAIN_SECONDS = 10.0
_PLAIN_WIDTH = 150

COLUMNS = ("device", "published", "in table", "missing", "duplicated", "wire B/reading", "p50 s", "p99 s")
"""Of the closing table. Seconds are from a reading to its collector."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How many of the fleet's readings have reached each stage."""

    agents: int
    published: int
    queued: int
    relayed_bytes: int
    landed_messages: int
    in_table: int | None
    """None if no process fills a table during sampling."""

    def line(self) -> str:
        """Return one line."""
        rows = "" if self.in_table is None else f" · {self.in_table} readings in the table"
        return (
            f"{self.agents} agents · {self.published} readings published · {self.queued} messages queued · "
            f"{self.relayed_bytes / 1000:.0f} kB relayed · {self.landed_messages} messages landed{rows}"
        )


class Screen:
    """The terminal."""

    def __init__(self, chaos: bool) -> None:
        self._console = Console(highlight=False)
        if not self._console.is_terminal:
            self._console.width = _PLAIN_WIDTH
        self._status: Status | None = None
        self._shown_at = 0.0
        self._chaos = chaos

    def say(self, line: str) -> None:
        """Print a permanent line."""
        self._console.print(line, style="bold red" if line.startswith("SIGKILL") else None)

    def show(self, progress: Progress, what: str) -> None:
        """Show the progress."""
        line = f"{what}: {progress.line()}"
        if self._console.is_terminal:
            if self._status is None:
                self._status = self._console.status(line)
                self._status.start()
            self._status.update(line)
        elif time.monotonic() - self._shown_at > _PLAIN_SECONDS:
            self._shown_at = time.monotonic()
            self._console.print(line)

    def close(self) -> None:
        """End the live line."""
        if self._status is not None:
            self._status.stop()
            self._status = None

    def table(self, rows: list[tuple[str, int, int, int, int, float, float, float]]) -> None:
        """Print the closing table."""
        table = Table(title="each reading exactly once" + (", through every kill" if self._chaos else ""))
        for column in COLUMNS:
            table.add_column(column, justify="left" if column == "device" else "right")
        for row in rows:
            table.add_row(*[f"{cell:.1f}" if isinstance(cell, float) else str(cell) for cell in row])
        self._console.print(table)
