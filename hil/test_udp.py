"""A board over UDP: the whole firmware on a socket of its own, through a network that loses, doubles and reorders."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

import pytest

from covey_boards.udp_socket import UdpSocket
from hil.boards.bad_network import BadNetwork
from hil.boards.drivers import Driver, UnixPort
from hil.boards.emulated_board import EmulatedBoard
from hil.boards.live_gateway import LiveGateway
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

READINGS = 60
HEAP_KIB = 72
QUICK = {"interval_seconds": 0.05, "batch_seconds": 0.3, "sensors": [["counter", {}]]}


def _free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_nothing_is_lost_or_doubled_over_a_bad_network_and_a_restart(
    board: Driver, artefacts: Callable[[str], dict[str, bytes]], tmp_path: Path
) -> None:
    """One datagram in twenty is lost, one comes twice, one comes late; and in between the board's power is cut."""
    if not isinstance(board, UnixPort):
        pytest.skip(f"{board.name} has no sockets")
    listening = UdpSocket("127.0.0.1", 0)
    listening.start()
    network = BadNetwork(listening.address, permille=50, seed=1)
    udp = {"host": "127.0.0.1", "port": network.port, "local_port": _free_port()}
    settings: dict[str, object] = {**QUICK, "udp": udp}
    emulated = EmulatedBoard(
        tmp_path, tool=board.tool, modules=dict(artefacts(board.architecture)), settings=settings, heap_kib=HEAP_KIB
    )
    try:
        emulated.start()
        lines: list[Any] = []
        wait_until(lambda: lines.extend(listening.new_lines()) or lines, "the board's line comes up")
        gateway = LiveGateway(emulated, link=lines[0])
        gateway.serve(lambda: gateway.collector.readings >= READINGS)
        values = gateway.collector.values()
        assert values == list(range(1, len(values) + 1))
        (incarnation,) = gateway.collector.links
        emulated.kill()
        emulated.start()
        gateway.serve(lambda: len(gateway.collector.links) == 2)
        (second,) = gateway.collector.links.keys() - {incarnation}
        gateway.serve(lambda: len(gateway.collector.links[second]) > 5)
        assert not listening.new_lines(), "from the same address: the same line"
        assert len({each.signing_public for each in gateway.identities}) == 1
        assert not emulated.said
        assert min(network.lost, network.doubled, network.late) > 0
    finally:
        emulated.close()
        network.close()
        listening.stop()
