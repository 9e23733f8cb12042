"""The installers that Covey brings, as an owner's definition names them: one of four words each time.

`install` reads the new version, `confirm` returns whether it is well (`core/actions/installing.py`).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from covey.adapters.clock import SystemClock
from covey.adapters.file_installer import FileInstaller
from covey.adapters.files import storage_errors
from covey.adapters.moments import DailyHours, on_mains
from covey.adapters.owners_program import run_owners_program
from covey.adapters.slot_installer import SlotInstaller, end_agent_above
from covey.errors import LocalError, RemoteError, UsageError
from covey.limits.board import MAXIMUM_BOARD_IMAGE_BYTES

if TYPE_CHECKING:
    from covey.adapters.state_folder import StateFolder
    from covey_boards.images import BoardImage

NOT_YET = 75

_ENDS_S = 600.0
"""Within which the agent ends, where it is asked to."""

WORDS = ("install", "confirm", "rollback", "version")


def install_file(word: str, target: Path, hook: Sequence[str], check: Sequence[str], content: BinaryIO) -> int | str:
    """Do what a word says with the file at `target`; return an exit code, or the version.

    Raises:
        LocalError: the hook failed, or a program cannot be started.
        StorageError: the disk refused.
        UsageError: the target is no place for a file.
    """
    if not target.is_absolute() or not target.parent.is_dir():
        raise UsageError(
            f"--to: '{target}' is not an absolute path in an existing folder", hint="for example --to /srv/model.bin"
        )
    installer = FileInstaller(target, hook, check)
    os.umask(0o022)  # the file is for other programs
    return _answer(installer, word, content)


def install_covey(word: str, slots: Path, content: BinaryIO) -> int | str:
    """Do what a word says with Covey itself, in its slots; return an exit code, or the version.

    Raises:
        LocalError: this Covey runs from no slot; or what is to be installed is none that can be gone back from.
        StorageError: the disk refused.
    """
    return _answer(SlotInstaller(slots, end_agent_above(_ENDS_S)), word, content)


def install_boards(word: str, folder: StateFolder, content: BinaryIO) -> int | str:
    """Do what a word says with the firmware of the boards behind this device; return an exit code, or the version.

    What is put there the agent brings to each board that is on its line. It is well once all of them run it; one on
    which it was no good, or that does not take it, says no. A board that has begun with it and is away is waited for.

    Raises:
        LocalError: it is no firmware for boards.
        StorageError: the disk refused.
    """
    installer = FileInstaller(folder.board_firmware)
    if word == "install":
        raw = content.read(MAXIMUM_BOARD_IMAGE_BYTES + 1)
        _image(raw)
        _forget_verdicts(folder)
        content = BytesIO(raw)
    return (word == "confirm" and _boards_run(folder)) or _answer(installer, word, content)


def wait_reason(hours_text: str, check: Sequence[str], *, mains: bool) -> str | None:
    """Return what has to be waited for before something is installed; None: nothing, this is the moment.

    Raises:
        LocalError: the owner's program `check` cannot be started, or failed.
        UsageError: the hours are none.
    """
    hours, clock = DailyHours.parse(hours_text) if hours_text else None, SystemClock()
    if hours is not None and not clock.synchronised():
        return "waits for a synchronised clock"
    if hours is not None and not hours.include(datetime.fromtimestamp(clock.wall_us() / 1_000_000).time()):  # noqa: DTZ006 - local time
        return f"waits for {hours}"
    if mains and not on_mains():
        return "waits for mains power"
    code = run_owners_program(check) if check else 0
    if code not in {0, NOT_YET}:
        raise LocalError(f"{check[0]} exited with code {code}")
    return f"waits for {check[0]}" if code else None


def _answer(installer: FileInstaller | SlotInstaller, word: str, content: BinaryIO) -> int | str:
    match word:
        case "install":
            return installer.install(content)
        case "confirm":
            return installer.confirm()
        case "rollback":
            return installer.roll_back()
    return installer.version()


def _image(raw: bytes) -> BoardImage:
    from covey_boards.images import read_image

    try:
        return read_image(raw)
    except RemoteError as error:
        raise LocalError(f"this is not board firmware: {error}", hint="'covey mcu pack' makes it") from error


def _forget_verdicts(folder: StateFolder) -> None:
    """Forget the verdicts of earlier installations, so that each board answers for this one."""
    from covey.app.device.device import open_device
    from covey_boards.updates import FIRMWARE_CONDITION

    with open_device(folder) as device, device.store.transaction():
        for name, (value, _) in device.store.conditions.values().items():
            if name.startswith(FIRMWARE_CONDITION) and value:
                device.store.conditions.set(name, "", device.now().wall_us)


def _boards_run(folder: StateFolder) -> int:
    """Return 0 if all boards here run this firmware, 75 if some do not yet, else 1."""
    from covey.app.device.device import open_device  # the other installers need no state
    from covey_boards.updates import FIRMWARE_CONDITION

    with storage_errors("read", folder.board_firmware):
        wanted = _image(folder.board_firmware.read_bytes()).digest.hex()[:16]
    with open_device(folder) as device:
        boards = [each for each in device.store.boards.all() if each.enrolled]
        conditions = device.store.conditions.values()
    found = [conditions.get(FIRMWARE_CONDITION + each.keys.signing_public.hex(), ("",))[0] for each in boards]
    words = [words[1] if (words := each.split(" ", 2))[0] == wanted else "" for each in found]
    said = [each for each, board in zip(words, boards, strict=True) if each or board.up]
    if any(each in {"failed", "refused"} for each in said):
        return 1
    return 0 if said and all(each == "runs" for each in said) else NOT_YET
