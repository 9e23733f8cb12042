"""`covey mcu scan|flash|enrol|monitor|pack|sign|stats|reset`: microcontrollers on this machine's serial ports.

A port is opened only if USB says that it is a board, or the configuration names it.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from covey.app.boards import boards
from covey.app.boards.boards import Board
from covey.app.boards.serial_ports import SerialPort, pick_port, scan_ports
from covey.app.device.device import Device
from covey.app.documents import to_json
from covey.cli.device_options import on_device
from covey.cli.grammar import Parser, group_option, json_option, seconds_option
from covey.cli.output.terminal import ask, explained_interruption, print_json, print_table
from covey.core.ids import labelled_name, printable
from covey.errors import LocalError, UsageError


def add_arguments(parser: Parser) -> None:
    """Add this command's actions."""
    actions = parser.add_actions()
    json_option(actions.add("scan", on_device(_scan), "list serial ports and the boards connected to them"))
    flash = actions.add("flash", on_device(_flash), "write Covey's firmware to a board")
    enrol = actions.add(
        "enrol",
        on_device(_enrol),
        "add a board to a group",
        examples=("covey mcu enrol --label orchard", "covey mcu enrol /dev/ttyACM0 --fingerprint FINGERPRINT"),
    )
    group_option(enrol)
    enrol.add_argument("--label", default="", help="name for people")
    enrol.add_argument("--fingerprint", help="expected fingerprint of the board")
    enrol.add_argument("--yes", action="store_true", help="trust the fingerprint without asking")
    monitor = actions.add("monitor", on_device(_monitor), "print a board's status changes (Ctrl-C to stop)")
    seconds_option(monitor, "--seconds", "stop after this time")
    pack = actions.add(
        "pack",
        on_device(_pack),
        "pack and sign the firmware as a file for a release to boards",
        examples=("covey mcu pack board.image --architecture armv6m", "covey mcu pack board.image"),
    )
    pack.add_argument("file", metavar="FILE", help="file to write")
    pack.add_argument(
        "--architecture",
        default="",
        metavar="NAME",
        help="compile for this processor, e.g. armv6m for RP2040 (default: sources)",
    )
    pack.add_argument("--heap", type=int, default=0, metavar="KIB", help="minimum heap of the board (default: any)")
    json_option(pack)
    sign = actions.add("sign", on_device(_sign), "sign firmware that another operator packed")
    sign.add_argument("file", metavar="FILE", help="file with the firmware")
    json_option(sign)
    stats = actions.add("stats", on_device(_stats), "show all boards that this machine has seen")
    reset = actions.add("reset", on_device(_reset), "restart a board")
    reset.add_argument("--unenrol", action="store_true", help="also delete the board's group and collector")
    for action in (flash, enrol, monitor, stats, reset):
        action.add_argument("port", nargs="?", metavar="PORT", help="port of the board (needed if there are several)")
        json_option(action)


def _pack(device: Device, options: argparse.Namespace) -> None:
    packed = boards.pack(device, Path(options.file), options.architecture, options.heap)
    if options.json:
        print_json(to_json(packed))
    else:
        print(f"{packed.file}: {packed.version} for {packed.architecture or 'any processor'}, {packed.bytes} bytes")


def _sign(device: Device, options: argparse.Namespace) -> None:
    signed = boards.sign(device, Path(options.file))
    if options.json:
        print_json(to_json(signed))
    else:
        print(f"{signed.file}: {signed.version}, signed by {', '.join(signed.signers)}")


def _scan(device: Device, options: argparse.Namespace) -> None:
    ports = scan_ports(device)
    if options.json:
        print_json([to_json(each) for each in ports])
    elif ports:
        rows = [
            (each.port, each.usb or "-", each.kind or printable(each.description) or "-", _board(each), _use(each))
            for each in ports
        ]
        print_table(["port", "usb", "what", "board", "state"], rows)
    else:
        print("no serial ports")


def _board(port: SerialPort) -> str:
    return "-" if port.board is None else labelled_name(port.board, port.label)


def _use(port: SerialPort) -> str:
    if port.missing:
        return "missing"
    if port.configured:
        return "configured"
    return "known" if port.kind else "unknown: not opened"


def _state(board: Board) -> str:
    if not board.board:
        return "cannot start"
    if board.group is None:
        return "in no group"
    return ("up" if board.up else "away") + ("" if board.enrolled else ", no collector")


def _stats(device: Device, options: argparse.Namespace) -> None:
    known = boards.known_boards(device, options.port)
    if options.json:
        print_json([to_json(board) for board in known])
        return
    if not known:
        raise LocalError(
            "the agent has seen no board yet",
            hint="'covey mcu scan' lists ports; bridge.ports lists those that the agent opens",
        )
    for board in known:
        print(f"board    {labelled_name(board.board, board.label) or 'not identified'}")
        print(f"port     {board.port}: {_state(board)}, {board.seconds} s ago")
        if board.software:
            print(f"software {printable(board.software)}")
        if board.trouble:
            print(f"trouble  {printable(board.trouble)}")
        if board.statistics:
            print_table(["number", "value"], sorted(board.statistics.items()))


def _monitor(device: Device, options: argparse.Namespace) -> None:
    """Print every change (Ctrl-C to stop)."""
    configured = device.config.bridge.ports
    ports = configured if configured and not options.port else [pick_port(device, options.port)]

    def show(board: Board, news: dict[str, int]) -> None:
        if options.json:
            print_json(to_json(board))
        else:
            numbers = ", ".join(f"{name} {value}" for name, value in sorted(news.items()))
            said = f", reports: {board.trouble}" if board.trouble else ""
            print(
                f"{labelled_name(board.board, board.label)} {board.port}: {_state(board)}{said}".lstrip()
                + (f": {numbers}" if numbers else "")
            )
        sys.stdout.flush()

    with suppress(KeyboardInterrupt):
        boards.monitor(device, ports, show, options.seconds)


def _enrol(device: Device, options: argparse.Namespace) -> None:
    port = pick_port(device, options.port)
    group = device.pick_group(options.group)

    def confirm(board: Board) -> None:
        if not options.yes:
            _compare(board)

    board = boards.enrol(device, port, group, options.label, expected=options.fingerprint, confirm=confirm)
    if options.json:
        print_json(to_json(board))
    elif board.enrolled:
        print(f"board {labelled_name(board.board, board.label)} joined group {(board.group or '')[:8]}")
    else:
        print(
            "warning: the board is in the group but has not answered yet; the agent informs it once it does",
            file=sys.stderr,
        )


def _compare(board: Board) -> None:
    """Ask a person to compare the fingerprint.

    Raises:
        LocalError: it differs.
        UsageError: there is no terminal to ask on.
    """
    if not sys.stdin.isatty():
        raise UsageError(
            f"compare the board's fingerprint before it is added: {board.fingerprint}",
            hint="then run the command with --fingerprint FINGERPRINT, or with --yes",
        )
    _introduce(board, sys.stderr)
    ask("did 'covey mcu flash' show this fingerprint for the board?")


def _introduce(board: Board, where: TextIO) -> None:
    print(f"board        {labelled_name(board.board, board.label)}, {printable(board.software)}", file=where)
    print(f"fingerprint  {board.fingerprint}", file=where)


def _reset(device: Device, options: argparse.Namespace) -> None:
    port = pick_port(device, options.port)
    if options.unenrol:
        _show_answering(boards.unenrol(device, port), options)
        return
    boards.restart(device, port)
    if options.json:
        print_json({"port": port, "restarted": True})
    else:
        print(f"the board on {port} has restarted")


def _flash(device: Device, options: argparse.Namespace) -> None:
    port = pick_port(device, options.port)
    stays = f"the board may have some of the files; 'covey mcu flash {port}' writes the missing ones"
    with explained_interruption(lambda: stays):
        flashed = boards.flash(device, port, lambda line: print(line, file=sys.stderr, flush=True))
    print(f"{flashed.written} of {flashed.files} files written, all verified", file=sys.stderr)
    _show_answering(flashed.board, options)


def _show_answering(board: Board, options: argparse.Namespace) -> None:
    if options.json:
        print_json(to_json(board))
    else:
        _introduce(board, sys.stdout)
