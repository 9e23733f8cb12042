"""What alerts remember, as a file: whole after a power cut."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from covey.adapters.files import replace_durably, storage_error
from covey.core.alerts import AlertBook, AlertKind, AlertMessage, Episode, Subject, TargetQueue
from covey.errors import StorageError

_VERSION = 1


class AlertFile:
    """The file of an `AlertBook`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._written = b""

    def read(self) -> AlertBook:
        """Return the book: an empty one where there is no file.

        Raises:
            StorageError: it cannot be read, or is not what was written; the hint says what to do.
        """
        content = self._content()
        if content is None:
            return AlertBook()
        book = _parsed(content)
        if book is None:
            raise StorageError(
                f"{self._path} is damaged", hint="'covey alert watch' sets it aside and starts an empty one"
            )
        self._written = content
        return book

    def read_or_set_aside(self) -> tuple[AlertBook, Path | None]:
        """Return the book; an empty one, and where the damaged file was copied to, where it is not what was written.

        The next `write` replaces the damaged file: if the power goes before, this is done once more.

        Raises:
            StorageError: it cannot be read, or not be copied.
        """
        content = self._content()
        if content is None or _parsed(content) is not None:
            return self.read(), None
        aside = self._path.with_name(f"{self._path.name}.damaged")
        replace_durably(aside, content, 0o600)
        return AlertBook(), aside

    def _content(self) -> bytes | None:
        try:
            return self._path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise storage_error("read", self._path, error) from error

    def write(self, book: AlertBook) -> None:
        """Replace the file, if anything in it has changed.

        Raises:
            StorageError: the disk refused.
        """
        content = json.dumps(_document(book), separators=(",", ":")).encode()
        if content != self._written:
            replace_durably(self._path, content, 0o600)
            self._written = content


def _parsed(content: bytes) -> AlertBook | None:
    try:
        return _book(json.loads(content))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _document(book: AlertBook) -> dict[str, Any]:
    return {
        "version": _VERSION,
        "number": book.number,
        "announced_us": book.announced_us,
        "episodes": [[*subject, asdict(episode)] for subject, episode in book.episodes.items()],
        "queues": {name: asdict(queue) for name, queue in book.queues.items()},
    }


def _book(document: dict[str, Any]) -> AlertBook:
    if document["version"] != _VERSION:
        raise ValueError(document["version"])
    return AlertBook(
        {
            Subject(AlertKind(kind), device, series): Episode(**about)
            for kind, device, series, about in document["episodes"]
        },
        {name: _queue(about) for name, about in document["queues"].items()},
        int(document["number"]),
        dict(document["announced_us"]),
    )


def _queue(about: dict[str, Any]) -> TargetQueue:
    waiting = [AlertMessage(**each | {"devices": tuple(each["devices"])}) for each in about["waiting"]]
    return TargetQueue(**about | {"waiting": waiting})
