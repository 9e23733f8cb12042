"""`covey mcu scan|flash|enrol|monitor|stats|reset`: microcontrollers on this machine's serial ports.

A port is opened only if USB says that it is a board, or the configuration names it. Where the agent has a port, it
speaks with the board and this command reads what it notes; else the command speaks itself, for as long as it runs.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from covey.adapters.journal import report
from covey.app.agent_roles import bridge_role
from covey.app.device import Device
from covey.cli.device_options import on_device
from covey.cli.grammar import Parser, group_option, json_option
from covey.cli.terminal import print_json, print_table
from covey.core.group.manifest import BOARD, GroupManifest, Member
from covey.core.ids import device_name, fingerprint, printable, truncate_utf8
from covey.core.routing.forwarding import board_member
from covey.errors import ConfigurationError, LocalError, UsageError
from covey.limits.group import MAXIMUM_LABEL_BYTES
from covey.ports import AttachedBoard

if TYPE_CHECKING:
    from covey_boards.usb import UsbPort

_TURN_S = 0.02
_ANSWER_S = 15.0
"""Longest wait for a board: a restart, a handshake, and a signature on a small processor."""


def add_arguments(parser: Parser) -> None:
    """Add this command's actions."""
    actions = parser.add_actions()
    json_option(actions.add("scan", on_device(_scan), "list the serial ports, and the boards behind them"))
    flash = actions.add("flash", on_device(_flash), "write Covey's firmware to a board")
    enrol = actions.add(
        "enrol",
        on_device(_enrol),
        "let a board into a group",
        examples=("covey mcu enrol --label orchard", "covey mcu enrol /dev/ttyACM0 --fingerprint FINGERPRINT"),
    )
    group_option(enrol)
    enrol.add_argument("--label", default="", help="a name for people")
    enrol.add_argument("--fingerprint", help="the fingerprint that the board must have")
    enrol.add_argument("--yes", action="store_true", help="believe the fingerprint")
    monitor = actions.add("monitor", on_device(_monitor), "print what changes on a board, until Ctrl-C")
    monitor.add_argument("--seconds", type=float, metavar="SECONDS", help="end after so long")
    stats = actions.add("stats", on_device(_stats), "show what is known of the boards that have been seen")
    reset = actions.add("reset", on_device(_reset), "restart a board")
    reset.add_argument("--forget", action="store_true", help="the board forgets its group and collector, too")
    for action in (flash, enrol, monitor, stats, reset):
        action.add_argument("port", nargs="?", metavar="PORT", help="the board's port, where several may be meant")
        json_option(action)


# -- ports ------------------------------------------------------------------------------------------------------------


def _attached() -> list[UsbPort]:
    """Return the serial ports of this machine.

    Raises:
        ConfigurationError: pyserial is not installed.
    """
    try:
        from covey_boards.serial_link import attached_ports
    except ImportError as error:
        raise ConfigurationError("boards need pyserial", hint="pip install 'covey[bridge]'") from error
    return attached_ports()


def _pick_port(device: Device, name: str | None) -> str:
    """Return the port that a person means, as the configuration calls it if it does.

    Raises:
        LocalError: none, several, or one that is not known to be a board's.
    """
    from covey_boards.usb import lasting_name

    configured = device.config.bridge.ports
    boards = [port for port in _attached() if port.kind is not None]
    if name is None:
        found = list(configured) or [lasting_name(port) for port in boards]
        if len(found) == 1:
            return found[0]
        raise LocalError(f"which board? {len(found)} ports may be meant", hint="'covey mcu scan' lists them")
    place = Path(name).resolve()
    for each in configured:
        if Path(each).resolve() == place:
            return each
    for port in boards:
        if Path(port.device).resolve() == place:
            return lasting_name(port)
    raise UsageError(
        f"{printable(name)} is not known to be a board, and is left alone",
        hint="if it is one: covey config set bridge.ports PORT",
    )


def _scan(device: Device, options: argparse.Namespace) -> None:
    from covey_boards.usb import lasting_name

    known = {board.port: board for board in device.store.boards.all()}
    configured = {str(Path(port).resolve()): port for port in device.config.bridge.ports}
    rows: list[dict[str, object]] = []
    for port in _attached():
        ours = configured.pop(str(Path(port.device).resolve()), None)
        name = ours or lasting_name(port)
        usb = None if port.vendor is None or port.product is None else f"{port.vendor:04x}:{port.product:04x}"
        rows.append(_row(name, usb, port.kind, port.description, known.get(name), configured=ours is not None))
    rows += [
        _row(name, None, None, "", known.get(name), configured=True, missing=not Path(name).exists())
        for name in configured.values()
    ]
    if options.json:
        print_json(rows)
        return
    if not rows:
        print("no serial ports")
        return
    shown = []
    for row in rows:
        known_as = "known" if row["kind"] else "unknown: left alone"
        state = "missing" if row["missing"] else "configured" if row["configured"] else known_as
        what = row["kind"] or printable(str(row["description"])) or "-"
        shown.append((row["port"], row["usb"] or "-", what, row["board"] or "-", state))
    print_table(["port", "usb", "what", "board", "state"], shown)


def _row(
    name: str,
    usb: str | None,
    kind: str | None,
    description: str,
    board: AttachedBoard | None,
    *,
    configured: bool,
    missing: bool = False,
) -> dict[str, object]:
    return {
        "port": name,
        "usb": usb,
        "kind": kind,
        "description": description,
        "configured": configured,
        "missing": missing,
        "board": None if board is None else device_name(board.keys.signing_public),
    }


# -- what is known of boards ------------------------------------------------------------------------------------------


def described(device: Device, board: AttachedBoard) -> dict[str, object]:
    """Return what is known of a board as JSON values."""
    found = board_member(device.node.membership, board.keys.signing_public)
    return {
        "port": board.port,
        "board": device_name(board.keys.signing_public),
        "label": found[1].label if found else "",
        "fingerprint": fingerprint(board.keys.signing_public),
        "signing_public": board.keys.signing_public.hex(),
        "software": board.software,
        "group": found[0].group_id.hex() if found else None,
        "enrolled": board.enrolled,
        "up": board.up,
        "seconds": max(0, (device.clock.wall_us() - board.changed_at_us) // 1_000_000),
        "statistics": board.statistics,
    }


def _boards(device: Device, options: argparse.Namespace) -> list[AttachedBoard]:
    """Return the boards that have been seen, on one port if one is named."""
    boards = device.store.boards.all()
    if options.port is None:
        return boards
    place = Path(options.port).resolve()
    return [board for board in boards if Path(board.port).resolve() == place]


def _state(board: dict[str, object]) -> str:
    if board["group"] is None:
        return "in no group"
    return ("up" if board["up"] else "away") + ("" if board["enrolled"] else ", knows no collector")


def _stats(device: Device, options: argparse.Namespace) -> None:
    boards = [described(device, board) for board in _boards(device, options)]
    if options.json:
        print_json(boards)
        return
    if not boards:
        raise LocalError("no board has been seen", hint="'covey mcu scan' lists ports; the agent opens bridge.ports")
    for board in boards:
        print(f"board    {board['board']} {printable(str(board['label']))}".rstrip())
        print(f"port     {board['port']}: {_state(board)}, {board['seconds']} s ago")
        print(f"software {printable(str(board['software']))}")
        statistics = board["statistics"]
        assert isinstance(statistics, dict)
        if statistics:
            print_table(["number", "value"], sorted(statistics.items()))


def _monitor(device: Device, options: argparse.Namespace) -> None:
    """Print every change until Ctrl-C. What a board measures stays closed: numbers and states are all that there is."""
    ports = [_pick_port(device, options.port)] if options.port else list(device.config.bridge.ports)
    if not ports:
        ports = [_pick_port(device, None)]
    shown: dict[str, tuple[bool, bool, dict[str, int]]] = {}

    def show() -> bool:
        for board in device.store.boards.all():
            news = (board.up, board.enrolled, board.statistics)
            if board.port in ports and shown.get(board.port) != news:
                _show_change(described(device, board), shown.get(board.port, (False, False, {}))[2], options.json)
                shown[board.port] = news
        return False

    try:
        _wait(device, ports, show, options.seconds)
    except KeyboardInterrupt:
        return


def _show_change(board: dict[str, object], before: dict[str, int], as_json: bool) -> None:
    if as_json:
        print_json(board)
    else:
        statistics = board["statistics"]
        assert isinstance(statistics, dict)
        news = [f"{name} {value}" for name, value in sorted(statistics.items()) if before.get(name) != value]
        print(f"{board['board']} {board['port']}: {_state(board)}" + (": " + ", ".join(news) if news else ""))
    sys.stdout.flush()


# -- what is done with boards -----------------------------------------------------------------------------------------


def _wait(device: Device, ports: list[str], condition: Callable[[], bool], seconds: float | None) -> bool:
    """Wait while boards speak: with the agent where it has the ports, else with this process."""
    ours = [port for port in ports if port not in device.config.bridge.ports or not device.folder.agent_runs()]
    bridge = bridge_role(device, ours) if ours else None
    deadline = None if seconds is None else time.monotonic() + seconds
    try:
        if bridge is not None:
            bridge.turn(device.node, device.now())  # a killed agent may have left that it is there
        while not condition():
            if deadline is not None and time.monotonic() >= deadline:
                return False
            if device.store.changed_elsewhere():
                device.node.refresh()
            if bridge is not None:
                bridge.turn(device.node, device.now())
            time.sleep(_TURN_S)
    finally:
        if bridge is not None:
            bridge.stop(device.node, device.now())
    return True


def _board_on(device: Device, port: str) -> AttachedBoard | None:
    """Return the board that answers on a port."""
    return next((board for board in device.store.boards.all() if board.port == port and board.up), None)


def _enrol(device: Device, options: argparse.Namespace) -> None:
    port = _pick_port(device, options.port)
    group = device.pick_group(options.group)
    seen: list[AttachedBoard] = []

    def told() -> bool:
        """Ask the person as soon as the board answers; then wait for the board to say that it knows."""
        board = _board_on(device, port)
        if board is None:
            return False
        if not seen and board_member(device.node.membership, board.keys.signing_public) is None:
            _confirm(board, options)
            _add(device, group, board, options.label)
        seen[:] = [board]
        return board.enrolled

    done = _wait(device, [port], told, _ANSWER_S)
    if not seen:
        raise LocalError(
            f"no board answers on {port}", hint="covey mcu flash, if it has no firmware; the log of the agent says more"
        )
    [board] = seen
    if options.json:
        print_json(described(device, board))
    elif done:
        print(f"board {device_name(board.keys.signing_public)} is in group {group.group_id.hex()[:8]}, and knows it")
    else:
        report("warning", "the group lists the board; it has not answered yet, and is told as soon as it does")


def _confirm(board: AttachedBoard, options: argparse.Namespace) -> None:
    """Have a person compare the fingerprint.

    Raises:
        LocalError: it is another one, or nobody is there to compare it.
    """
    shown = fingerprint(board.keys.signing_public)
    if options.fingerprint is not None:
        if options.fingerprint.strip().upper() != shown:
            raise LocalError(f"the board's fingerprint is {shown}, not the one named")
        return
    if options.yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(
            f"a person must compare the board's fingerprint: {shown}", hint="--fingerprint FINGERPRINT, or --yes"
        )
    print(f"board        {device_name(board.keys.signing_public)}, {printable(board.software)}", file=sys.stderr)
    print(f"fingerprint  {shown}", file=sys.stderr)
    print("is it the one that 'covey mcu flash' showed for this board? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise LocalError("nothing was changed")


def _add(device: Device, group: GroupManifest, board: AttachedBoard, label: str) -> None:
    """Let a board into the group.

    Raises:
        LocalError: the group has no collector, or does not let this device.
    """
    if device.node.membership.collector_of(group.group_id, board.keys.signing_public) is None:
        raise LocalError("the group has no collector", hint="invite one: covey invite --capability collector")
    member = Member(board.keys, truncate_utf8(label, MAXIMUM_LABEL_BYTES), capabilities=(BOARD,))

    def edit(draft: GroupManifest, _: bytes) -> GroupManifest:
        return draft.adding(member)

    with device.store.transaction():
        device.node.actions.change(group.group_id, edit, device.now())


def _reset(device: Device, options: argparse.Namespace) -> None:
    port = _pick_port(device, options.port)
    if options.forget:
        _flash(device, options, forget=True)
        return
    asked_at: list[int] = []

    def restarted() -> bool:
        board = _board_on(device, port)
        if board is None:
            return False
        if not asked_at:
            asked_at.append(board.changed_at_us)
            with device.store.transaction():
                device.store.boards.want_restart(port)
        return board.changed_at_us > asked_at[0] and port not in device.store.boards.restarts_wanted()

    if not _wait(device, [port], restarted, _ANSWER_S):
        raise LocalError(f"no board {'came back' if asked_at else 'answers'} on {port}")
    if options.json:
        print_json({"port": port, "restarted": True})
    else:
        print(f"the board on {port} has restarted")


def _flash(device: Device, options: argparse.Namespace, *, forget: bool = False) -> None:
    from covey_boards import flash

    port = _pick_port(device, options.port)
    if port in device.config.bridge.ports and device.folder.agent_runs():
        raise LocalError("the agent has this port open", hint="stop it for the time: systemctl stop covey")
    if forget:
        flash.forget(port, device.config.bridge.baud)
    else:
        written = flash.write_firmware(port, device.config.bridge.baud, lambda line: report("info", line))
        print(f"{written} of {len(flash.firmware())} files written, all verified", file=sys.stderr)

    def answers() -> bool:
        return _board_on(device, port) is not None

    if not _wait(device, [port], answers, _ANSWER_S):
        raise LocalError(f"the files are there, but no board answers on {port}", hint="unplug it, and plug it in again")
    board = _board_on(device, port)
    assert board is not None
    if options.json:
        print_json(described(device, board))
    else:
        print(f"board        {device_name(board.keys.signing_public)}, {printable(board.software)}")
        print(f"fingerprint  {fingerprint(board.keys.signing_public)}")
