"""Record a deletion in a group's history, signed by this device, before and after it.

1. Before a deletion, a note says what will be deleted. If the note cannot be written, nothing is deleted.
2. A second note, a reply to the first, says what was deleted. A first note alone means that the deletion was
interrupted or failed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from covey.app.history.writing import write_note
from covey.cli.grammar import Parser, group_option
from covey.errors import ConfigurationError, LocalError, StorageError

if TYPE_CHECKING:
    from covey.app.device.device import Device
    from covey.core.history.operation import Operation


def add_note_options(parser: Parser) -> None:
    group_option(parser)
    parser.add_argument("--no-note", action="store_true", help="do not post a note in the group's history")


def note_intent(device: Device, group: str | None, what: str) -> Operation:
    """Record in a group's history what will be deleted (rule 1).

    Raises:
        ConfigurationError: the note cannot be written.
    """
    try:
        line = f"about to delete {what}"
        return write_note(device, device.pick_group(group), line.encode(), "text/plain", None, None, typed=True)
    except (LocalError, StorageError) as error:
        raise unnoted(error) from error


def note_result(device: Device, group: str | None, intent: Operation, what: str) -> None:
    """Record what was deleted (rule 2)."""
    line, about = f"deleted {what}", intent.id.hex()
    write_note(device, device.pick_group(group), line.encode(), "text/plain", about, None, typed=True)


def unnoted(error: Exception) -> ConfigurationError:
    """Return the error for a machine without a device that can sign a note."""
    return ConfigurationError(
        f"the deletion cannot be noted in a group's history: {error}",
        hint="run it on a device in a group and choose the group with --group; or delete without a note: --no-note",
    )
