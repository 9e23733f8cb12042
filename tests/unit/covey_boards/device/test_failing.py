"""A board that cannot go on serves the line, says why, and starts anew."""

from __future__ import annotations

from covey_boards.device import failing
from covey_boards.shared import line_orders, link_machine, messages


def _talk(board: failing.Failing, gateway: link_machine.Link, seconds: float, now_us: int = 0) -> list[list[object]]:
    """Let both ends speak until the board wants its restart; return what it said."""
    lines = []
    for step in range(int(100 * seconds)):
        now_us += 10_000
        gateway.receive_bytes(board.tick(now_us), now_us // 1000)
        deadline = gateway.next_deadline()
        if deadline is not None and now_us // 1000 >= deadline:
            gateway.handle_deadline(now_us // 1000)
        while (event := gateway.next_event()) is not None:
            if isinstance(event, link_machine.Message):
                lines.append(line_orders.from_line(event.data))
                gateway.acknowledge(event.token)
        board.feed(gateway.bytes_to_send(now_us // 1000), now_us)
        if board.restart_wanted:
            break
        assert step < 100 * seconds - 1, "it starts anew"
    return lines


def test_a_failing_board_says_why_and_restarts_after_a_while() -> None:
    board = failing.Failing("start: OSError 28", 0)
    lines = _talk(board, link_machine.Link(b"of-a-gw0"), 31)
    assert lines == [[messages.TROUBLE, "start: OSError 28"]]


def test_a_failing_board_answers_a_person_soon() -> None:
    board = failing.Failing("start: OSError 28", 0, 2)
    assert _talk(board, link_machine.Link(b"of-a-gw0"), 3) == [[messages.TROUBLE, "start: OSError 28"]]


def test_it_obeys_a_restart_and_nothing_else() -> None:
    board, gateway = failing.Failing("x", 0), link_machine.Link(b"of-a-gw0")
    for message in (b"noise", messages.to_line(messages.TIME, 1, True), messages.to_line(messages.RESTART)):
        gateway.send(message)
    _talk(board, gateway, 5)


def test_memory_shortage_and_failures_request_a_restart() -> None:
    for end in (lambda board: board.out_of_memory(), lambda board: board.failed(OSError(5))):
        board = failing.Failing("x", 0)
        end(board)
        assert board.restart_wanted
