"""`covey.core.link.taken_sizes`: one size that a relay hangs up on is found, refused for a while, and tried again."""

from __future__ import annotations

import itertools

from covey.core.link.taken_sizes import SizeAdmission, TakenSizes
from covey.limits.link import HANG_UP_WITHIN_US, HANG_UPS, REFUSED_SIZE_US, REFUSED_SIZE_US_MAX, SUSPECT_BYTES_MIN

ANNOUNCED, TAKEN, LARGE = 1_000_000, 130_000, 300_000


class Relay:
    """A relay that takes no more than `TAKEN` bytes, and says nothing of it."""

    def __init__(self) -> None:
        self.sizes = TakenSizes()
        self.sizes.came_up(ANNOUNCED)
        self.now_us = 0
        self.taken_bytes = TAKEN
        self.hang_ups = 0
        self._handles = itertools.count()

    def offer(self, *sizes: int) -> tuple[list[SizeAdmission], int | None]:
        """Send what may go, hang up on what is too large, else answer; return what was admitted, and the verdict."""
        admitted = []
        sent = dict[int, int]()
        for size in sizes:
            admitted.append(self.sizes.admission(size, self.now_us))
            if admitted[-1] is SizeAdmission.NOW:
                handle = next(self._handles)
                self.sizes.sent(handle, size, self.now_us)
                sent[handle] = size
        if any(size > self.taken_bytes for size in sent.values()):
            self.hang_ups += 1
            verdict = self.sizes.went_down(self.now_us)
            self.sizes.came_up(ANNOUNCED)
            return admitted, verdict
        for handle in sent:
            self.sizes.answered(handle, taken=True)
        return admitted, None

    def find_limit(self) -> None:
        """Offer a large message until it is refused."""
        while self.offer(LARGE)[1] is None:
            assert self.hang_ups < 10


def test_smaller_messages_pass_a_suspect_one() -> None:
    relay = Relay()
    relay.offer(500, LARGE, 600)
    assert relay.offer(500, LARGE, 600)[0] == [SizeAdmission.NOW, SizeAdmission.ALONE_LATER, SizeAdmission.NOW]
    assert relay.offer(LARGE, 500)[0] == [SizeAdmission.NOW, SizeAdmission.AFTER_THE_SUSPECT]


def test_a_size_that_fails_alone_again_and_again_is_refused_and_smaller_ones_go() -> None:
    relay = Relay()
    relay.find_limit()
    assert relay.hang_ups == 1 + HANG_UPS
    assert relay.offer(LARGE, TAKEN, LARGE + 1)[0] == [SizeAdmission.NEVER, SizeAdmission.NOW, SizeAdmission.NEVER]
    assert TAKEN < relay.sizes.largest < LARGE
    assert TAKEN < relay.sizes.divided <= LARGE // 2


def test_a_mended_relay_gets_large_messages_again() -> None:
    relay = Relay()
    relay.find_limit()
    relay.taken_bytes = ANNOUNCED
    relay.now_us += REFUSED_SIZE_US
    assert relay.offer(LARGE) == ([SizeAdmission.NOW], None)
    assert relay.offer(LARGE, LARGE)[0] == [SizeAdmission.NOW, SizeAdmission.NOW]
    assert relay.sizes.largest == ANNOUNCED


def test_a_relay_that_is_not_mended_costs_one_hang_up_at_most_daily() -> None:
    relay = Relay()
    relay.find_limit()
    pauses, before = [], 0
    for _ in range(8):
        since = relay.now_us
        before = relay.hang_ups
        while relay.hang_ups == before:
            relay.now_us += REFUSED_SIZE_US // 4
            relay.offer(LARGE)
        pauses.append(relay.now_us - since)
    assert pauses[0] == REFUSED_SIZE_US
    assert pauses == sorted(pauses)
    assert pauses[-1] == REFUSED_SIZE_US_MAX


def test_a_relay_that_says_why_is_believed_at_once() -> None:
    sizes = TakenSizes()
    sizes.came_up(ANNOUNCED)
    sizes.sent(1, 500, 0)
    sizes.sent(2, LARGE, 0)
    assert sizes.went_down(0, too_large=True) == LARGE
    assert sizes.admission(LARGE, 0) is SizeAdmission.NEVER


def test_a_bad_line_has_no_size_refused() -> None:
    """Connections that end over whatever is under way, while messages of the same size get through in between."""
    sizes = TakenSizes()
    for number in range(100):
        sizes.came_up(ANNOUNCED)
        sizes.sent(1, LARGE, number)
        if number % 2:
            sizes.answered(1, taken=True)
            sizes.sent(2, 500, number)
        assert sizes.went_down(number) is None


def test_small_messages_are_never_suspected() -> None:
    sizes = TakenSizes()
    for number in range(100):
        sizes.came_up(ANNOUNCED)
        sizes.sent(1, SUSPECT_BYTES_MIN - 1, number)
        assert sizes.went_down(number) is None


def test_a_connection_that_ends_long_after_a_message_was_sent_did_not_end_because_of_it() -> None:
    relay = Relay()
    for handle in range(20):
        relay.sizes.sent(handle, LARGE, relay.now_us)
        relay.now_us += HANG_UP_WITHIN_US + 1
        assert relay.sizes.went_down(relay.now_us) is None
        relay.sizes.came_up(ANNOUNCED)
    assert relay.offer(LARGE, LARGE)[0] == [SizeAdmission.NOW, SizeAdmission.NOW], "not even suspected"


def test_a_relay_whose_limit_was_lowered_is_found_out_though_it_took_the_size_before() -> None:
    relay = Relay()
    relay.taken_bytes = ANNOUNCED
    relay.offer(LARGE)
    relay.taken_bytes = TAKEN
    relay.find_limit()
    assert relay.offer(TAKEN)[0] == [SizeAdmission.NOW]


def test_a_refusal_is_taken_up_by_the_next_process() -> None:
    relay = Relay()
    for _ in range(HANG_UPS + 1):
        relay.offer(LARGE)
    refusal = relay.sizes.refusal
    assert refusal is not None
    relay.sizes = TakenSizes()
    relay.sizes.restore(*refusal, relay.now_us)
    relay.sizes.came_up(ANNOUNCED)
    hang_ups = relay.hang_ups
    assert relay.offer(LARGE, TAKEN) == ([SizeAdmission.NEVER, SizeAdmission.NOW], None)
    assert relay.hang_ups == hang_ups
    relay.now_us += REFUSED_SIZE_US_MAX
    assert relay.offer(LARGE)[0] == [SizeAdmission.NOW], "after a while it is tried again"
