"""The ingest's numbers for Prometheus: served on an address, or in a file for node_exporter's textfile collector.

There are no labels: no name contains text that a device or a collector chose.
"""

from __future__ import annotations

from contextlib import suppress
from http import HTTPStatus
from pathlib import Path

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    generate_latest,
    write_to_textfile,
)

from covey.adapters.http.exchange import Exchange
from covey.adapters.http.listener import Listener, listening_at
from covey.adapters.http.places import ConnectedClient, Phase, Places
from covey.errors import ConfigurationError
from covey_ingest.progress import Lag, Progress


class IngestMetrics:
    """Counters since the start of this ingest, and the state after the last micro-batch."""

    def __init__(self, file: Path | None = None, address: tuple[str, int] | None = None) -> None:
        """Begin to serve or to write.

        Raises:
            ConfigurationError: the address or the file is not to be had.
        """
        self._registry = CollectorRegistry()
        self._file = file
        self._counters = {
            name: Counter(f"covey_ingest_{name}", meaning, registry=self._registry)
            for name, meaning in (
                ("batches", "Micro-batches committed"),
                ("messages", "Telemetry messages read"),
                ("readings", "Rows written to the readings table"),
                ("bytes", "Bytes written for readings"),
                ("losses", "Ranges of messages that devices report as lost"),
                ("repeats", "Duplicate messages"),
                ("quarantined", "Entries quarantined"),
                ("repaired", "Segments skipped earlier and read now"),
                ("unverified", "Entries quarantined for a signature or encryption error"),
            )
        }
        self._gauges = {
            name: Gauge(f"covey_ingest_{name}", meaning, registry=self._registry)
            for name, meaning in (
                ("seconds", "Duration of the last micro-batch"),
                ("lag_segments", "Segments in the vault that are not in the tables yet"),
                ("lag_seconds", "Age of the newest arrival in the tables while segments wait, else 0"),
                ("newest_arrival_seconds", "Time of the newest arrival in the tables"),
                ("damaged_files", "Files of the tables that their disk has damaged, as far as they were read"),
                ("restored_files", "Times that this engine has restored a damaged file of the tables"),
            )
        }
        try:
            if address is not None:
                listening = listening_at(*address)
                Listener(
                    listening, "metrics", lambda client, places: _Scrape(client, places, self._registry).converse()
                )
            self._write()
        except OSError as error:
            destination = f"{address[0]}:{address[1]}" if address else str(file)
            raise ConfigurationError(f"the metrics cannot go to {destination}: {error.strerror or error}") from error

    def note(self, progress: Progress) -> None:
        """Take in a micro-batch. A file that cannot be replaced now does not stop the ingest: it grows old."""
        self._counters["batches"].inc()
        for name in self._counters.keys() - {"batches"}:
            self._counters[name].inc(getattr(progress, name))
        self._gauges["seconds"].set(progress.seconds)
        if progress.newest_us is not None:
            self._gauges["newest_arrival_seconds"].set(progress.newest_us / 1e6)
        self._replace()

    def note_lag(self, lag: Lag) -> None:
        """Take in the lag that Spark's listener got."""
        self._gauges["lag_segments"].set(lag.segments)
        self._gauges["lag_seconds"].set(lag.seconds)
        self._replace()

    def note_damaged(self, files: int, restored: int) -> None:
        """Take in how many files were found damaged and are, and how often one was restored."""
        self._gauges["damaged_files"].set(files)
        self._gauges["restored_files"].set(restored)
        self._replace()

    def _replace(self) -> None:
        with suppress(OSError):
            self._write()

    def _write(self) -> None:
        if self._file is not None:
            write_to_textfile(str(self._file), self._registry)


class _Scrape(Exchange):
    """A connection of Prometheus. Nobody proves anything here: every client is a stranger."""

    def __init__(self, client: ConnectedClient, places: Places, registry: CollectorRegistry) -> None:
        self._registry = registry
        super().__init__(client, places)

    def respond(self) -> None:
        """Give the numbers."""
        if self.command != "GET":
            self.refuse_head(HTTPStatus.NOT_IMPLEMENTED, "these numbers are read")
        elif self.enter(Phase.ANSWERED):
            self._send(HTTPStatus.OK, CONTENT_TYPE_LATEST, generate_latest(self._registry))

    def refuse_head(self, status: HTTPStatus, why: str) -> None:
        """Answer what is no request."""
        self.close_connection = True
        self._send(status, "text/plain; charset=utf-8", f"{why}\n".encode())

    def _send(self, status: HTTPStatus, kind: str, content: bytes) -> None:
        self.begin(status, {"Content-Type": kind, "Content-Length": str(len(content))})
        self.write(content)
