"""Boards on this machine's serial ports: their state, and the commands for them.

Where the agent has a port, it speaks with the board and these functions read what it notes; elsewhere they speak
themselves, for as long as they run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from covey.adapters.files import replace_durably, storage_errors
from covey.adapters.services import hint_for
from covey.app.boards.bridge_role import bridge_role
from covey.app.boards.unnamed_boards import CANNOT_START_HINT, unnamed_boards
from covey.app.groups.groups import change_group, profile
from covey.core.group.manifest import BOARD, GroupManifest, Member
from covey.core.ids import device_name, fingerprint, printable, truncate_utf8
from covey.core.routing.forwarding import board_member, board_memberships
from covey.errors import LocalError, RemoteError, UsageError
from covey.limits.group import MAXIMUM_LABEL_BYTES
from covey.ports import UDP_PREFIX

if TYPE_CHECKING:
    from covey.app.device.device import Device
    from covey.ports import AttachedBoard

_TURN_S = 0.02
_ANSWER_S = 15.0
"""Longest wait for a board: a restart, a handshake, and a signature on a small processor."""


@dataclass(frozen=True, slots=True)
class Board:
    """What is known of a board: `group` is the id of the one that lists it, `seconds` since when it is up or not.

    Of one that cannot say who it is, its port, and what went wrong.
    """

    port: str
    board: str
    label: str
    fingerprint: str
    signing_public: str
    software: str
    group: str | None
    enrolled: bool
    up: bool
    seconds: int
    statistics: dict[str, int]
    trouble: str


@dataclass(frozen=True, slots=True)
class Flashed:
    """A board that has answered after its firmware was written: so many files of so many were other ones before."""

    board: Board
    written: int
    files: int


def known_boards(device: Device, port: str | None) -> list[Board]:
    """Return the boards that have been seen, on one port if one is named."""
    boards = [_described(device, board) for board in device.store.boards.all()]
    now_us = device.clock.wall_us()
    watched = device.config.bridge.ports if port is None else (*device.config.bridge.ports, port)
    for name, trouble, seconds in unnamed_boards(device.store.conditions, watched, now_us):
        boards.append(_unnamed(name, trouble, seconds))
    path = None if port is None else Path(port).resolve()
    return [board for board in boards if path is None or Path(board.port).resolve() == path]


def _unnamed(port: str, trouble: str, seconds: int) -> Board:
    return Board(
        port,
        board="",
        label="",
        fingerprint="",
        signing_public="",
        software="",
        group=None,
        enrolled=False,
        up=False,
        seconds=seconds,
        statistics={},
        trouble=trouble,
    )


def _described(device: Device, board: AttachedBoard) -> Board:
    found = board_member(device.node.groups, board.keys.signing_public)
    return Board(
        port=board.port,
        board=device_name(board.keys.signing_public),
        label=found[1].label if found else "",
        fingerprint=fingerprint(board.keys.signing_public),
        signing_public=board.keys.signing_public.hex(),
        software=board.software,
        group=found[0].group_id.hex() if found else None,
        enrolled=board.enrolled,
        up=board.up,
        seconds=max(0, (device.clock.wall_us() - board.changed_at_us) // 1_000_000),
        statistics=board.statistics,
        trouble=printable(board.trouble),
    )


def monitor(
    device: Device, ports: Iterable[str], show: Callable[[Board, dict[str, int]], None], seconds: float | None
) -> None:
    """Show each change of the boards on some ports, with the numbers that are news; what they measure stays sealed."""
    watched = list(ports)
    shown: dict[str, tuple[bool, bool, dict[str, int], str]] = {}

    def look() -> None:
        for board in [each for port in watched for each in known_boards(device, port)]:
            state = (board.up, board.enrolled, board.statistics, board.trouble)
            before = shown.get(board.port)
            if before != state:
                known = before[2] if before else {}
                news = {name: value for name, value in board.statistics.items() if known.get(name) != value}
                show(board, news)
                shown[board.port] = state

    _wait(device, watched, look, seconds)


def enrol(
    device: Device,
    port: str,
    group: GroupManifest,
    label: str,
    *,
    expected: str | None,
    confirm: Callable[[Board], None],
) -> Board:
    """Let the board on a port into a group, or give the one that is in one another label, and wait until it knows.

    A person compares the fingerprint as soon as the board answers: by naming the `expected` one, or in `confirm`,
    which raises where it is not right.

    Raises:
        LocalError: no board answers, it is another one or of another group, the group has no collector, or does not let
            this device.
    """
    seen: list[AttachedBoard] = []

    def knows() -> AttachedBoard | None:
        board = _answering(device, port)
        if board is None:
            return None
        if not seen:
            described = _described(device, board)
            memberships = board_memberships(device.node.groups, board.keys.signing_public)
            shared = {each.group_id: member for each, member in memberships}
            found = shared.get(group.group_id)
            if expected is not None and expected.strip().upper() != described.fingerprint:
                raise LocalError(f"the board's fingerprint is {described.fingerprint}, not the one given")
            if shared and found is None:
                other = next(iter(shared)).hex()[:8]
                raise LocalError(
                    f"the board is in group {other}, and a board sends to one group",
                    hint=f"first: covey group remove {described.board} --group {other}, and covey mcu reset --unenrol",
                )
            if found is None and board.enrolled:
                raise LocalError(
                    "the board still sends for a group that it was in before",
                    hint="first: covey mcu reset --unenrol; if it returns to that group: covey group add",
                )
            if found is None:
                if expected is None:
                    confirm(described)
                _add(device, group, board, label)
            elif label and found.label != label:
                present = device.node.groups.group(group.group_id)
                change_group(device, present, profile(board.keys.signing_public, label, []))
        seen[:] = [board]
        return board if board.enrolled else None

    _wait(device, [port], knows, _ANSWER_S)
    if not seen:
        _check_starts(device, port)
        raise LocalError(
            f"no board answers on {port}",
            hint="flash it if it has no firmware: covey mcu flash; the agent's log says more",
        )
    return _described(device, seen[0])


def _add(device: Device, group: GroupManifest, board: AttachedBoard, label: str) -> None:
    if device.node.groups.collector_of(group.group_id, board.keys.signing_public) is None:
        raise LocalError("the group has no collector", hint="invite one: covey invite --capability collector")
    member = Member(board.keys, truncate_utf8(label, MAXIMUM_LABEL_BYTES), capabilities=(BOARD,))

    def edit(draft: GroupManifest, _: bytes) -> GroupManifest:
        return draft.adding(member)

    with device.store.transaction():
        device.node.actions.change(group.group_id, edit, device.now())


def restart(device: Device, port: str) -> None:
    """Restart the board on a port, and wait until it is back.

    Raises:
        LocalError: no board answers, or it did not come back.
    """
    asked_at: list[int] = []

    def restarted() -> AttachedBoard | None:
        board = _answering(device, port)
        if board is None:
            return None
        if not asked_at:
            asked_at.append(board.changed_at_us)
            with device.store.transaction():
                device.store.boards.want_restart(port)
        back = board.changed_at_us > asked_at[0] and port not in device.store.boards.restarts_wanted()
        return board if back else None

    if _wait(device, [port], restarted, _ANSWER_S) is None:
        _check_starts(device, port)
        raise LocalError(f"no board {'answers after the restart' if asked_at else 'answers'} on {port}")


def flash(device: Device, port: str, progress: Callable[[str], None]) -> Flashed:
    """Write the firmware, verify each file, and wait until the board answers; `progress` is told lines for a person.

    Raises:
        LocalError: the agent has the port open, or no board answers afterwards.
    """
    from covey_boards import flash

    _require_closed(device, port)
    written = flash.write_firmware(port, device.config.bridge.baud, progress)
    return Flashed(_come_back(device, port), written, len(flash.firmware()))


@dataclass(frozen=True, slots=True)
class PackedFirmware:
    """A firmware in a file: for which processor (empty: any), and how long it is."""

    file: str
    version: str
    architecture: str
    bytes: int


def pack(device: Device, path: Path, architecture: str, heap_kib: int) -> PackedFirmware:
    """Write the firmware into a file that this device signs, compiled for a processor, or as sources.

    Raises:
        LocalError: it cannot be compiled.
        StorageError: the disk refused.
        UsageError: there is no such processor.
    """
    from covey_boards.compiling import compiled
    from covey_boards.flash import firmware
    from covey_boards.images import ARCHITECTURES, read_image, write_image

    if architecture and architecture not in ARCHITECTURES:
        raise UsageError(f"--architecture: '{architecture}' is unknown", hint=f"one of: {', '.join(ARCHITECTURES)}")
    raw = write_image(compiled(firmware(), architecture), architecture, 1_024 * max(0, heap_kib), device.node.identity)
    image = read_image(raw)
    with storage_errors("write", path):
        path.write_bytes(raw)
    return PackedFirmware(str(path), image.version, image.architecture, len(raw))


@dataclass(frozen=True, slots=True)
class SignedFirmware:
    """A firmware in a file, and the names of the operators who have signed it."""

    file: str
    version: str
    signers: list[str]


def sign(device: Device, path: Path) -> SignedFirmware:
    """Add this device's signature to a firmware in a file.

    Raises:
        LocalError: it is no firmware for boards.
        StorageError: the disk refused.
    """
    from covey_boards.images import read_image, sign_image

    with storage_errors("read", path):
        raw = path.read_bytes()
    try:
        signed = sign_image(raw, device.node.identity)
    except RemoteError as error:
        raise LocalError(f"{path} is not board firmware: {error}", hint="'covey mcu pack' makes it") from error
    if signed != raw:
        with storage_errors("write", path):
            replace_durably(path, signed, 0o644)
    image = read_image(signed)
    return SignedFirmware(str(path), image.version, [device_name(each) for each in image.signers])


def unenrol(device: Device, port: str) -> Board:
    """Let a board forget its group and its collector, and wait until it answers again.

    Raises:
        LocalError: the agent has the port open, or no board answers afterwards.
    """
    from covey_boards import flash

    _require_closed(device, port)
    flash.unenrol(port, device.config.bridge.baud)
    return _come_back(device, port)


def _require_closed(device: Device, port: str) -> None:
    if port.startswith(UDP_PREFIX):
        raise UsageError("a board's files can be written only over USB", hint="'covey mcu scan' lists ports")
    if port in device.config.bridge.ports and device.folder.locks.agent_runs():
        raise LocalError(
            "the agent is using this port",
            hint=hint_for("covey", "stop the agent first: sudo systemctl stop {unit}", "stop the agent first"),
        )


def _come_back(device: Device, port: str) -> Board:
    board = _wait(device, [port], lambda: _answering(device, port), _ANSWER_S)
    if board is None:
        _check_starts(device, port)
        raise LocalError(
            f"the files were written, but no board answers on {port}", hint="unplug the board and plug it in again"
        )
    return _described(device, board)


def _check_starts(device: Device, port: str) -> None:
    """Check that no board on a port says why it cannot even say who it is.

    Raises:
        LocalError: one does.
    """
    for each in known_boards(device, port):
        if not each.board:
            raise LocalError(f"the board on {port} reports: {each.trouble}", hint=CANNOT_START_HINT)


def _answering(device: Device, port: str) -> AttachedBoard | None:
    return next((board for board in device.store.boards.all() if board.port == port and board.up), None)


def _wait(
    device: Device, ports: list[str], find: Callable[[], AttachedBoard | None], seconds: float | None
) -> AttachedBoard | None:
    config, runs = device.config.bridge, device.folder.locks.agent_runs()
    over_udp = [port for port in ports if port.startswith(UDP_PREFIX)]
    ours = [port for port in ports if port not in over_udp and not (runs and port in config.ports)]
    listen = config.udp_listen if over_udp and not runs else ""
    bridge = bridge_role(device, ours, listen) if ours or listen else None
    deadline = None if seconds is None else time.monotonic() + seconds
    try:
        if bridge is not None:
            bridge.turn(device.node, device.now())  # a killed agent may have left that it is there
        while (board := find()) is None:
            if deadline is not None and time.monotonic() >= deadline:
                return None
            if device.store.changed_elsewhere():
                device.node.refresh()
            if bridge is not None:
                bridge.turn(device.node, device.now())
            time.sleep(_TURN_S)
    finally:
        if bridge is not None:
            bridge.stop(device.node, device.now())
    return board
