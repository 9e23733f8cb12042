"""What doors remember: bounded, nobody else's to read, whole or set aside."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from covey.adapters.sqlite.door_file import DoorFile, set_aside
from covey.core.telemetry.doors import DoorGap, LandedPosition, Plan
from covey.errors import ConfigurationError
from covey.limits.doors import DOOR_LOSSES_KEPT


def test_places_plans_and_counts_outlive_the_process(tmp_path: Path) -> None:
    path = tmp_path / "doors.sqlite"
    file = DoorFile(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    file.begin("cloud", {"aa": 7}, 1)
    plan = Plan("aa", LandedPosition(8), LandedPosition(9, 3))
    file.keep("cloud", plan)
    file.close()
    file = DoorFile(path)
    assert (file.place("cloud", "aa"), file.place("cloud", "bb"), file.plan("cloud")) == ((8, 0), (1, 0), plan)
    file.failed("cloud", "down", 5)
    file.failed("cloud", "down", 6)
    state = file.state("cloud")
    assert state is not None
    assert (state.attempts, state.failing_since_us) == (2, 5)
    file.taken("cloud", plan, (), 2, 6, 9)
    assert (file.place("cloud", "aa"), file.plan("cloud")) == ((9, 3), None)
    state = file.state("cloud")
    assert state is not None
    assert (state.messages, state.readings, state.taken_at_us, state.attempts, state.error) == (2, 6, 9, 0, "")
    assert file.state("other") is None
    file.close()


def test_neighbours_among_gaps_are_one_and_records_are_bounded(tmp_path: Path) -> None:
    file = DoorFile(tmp_path / "doors.sqlite")
    file.begin("cloud", {}, 1)
    for number in (1, 2, 3):
        file.passed("cloud", DoorGap("aa", number, number, "missing"), LandedPosition(number + 1), number)
    (noted,) = file.gaps("cloud")
    assert (noted.gap, noted.noted_at_us) == (DoorGap("aa", 1, 3, "missing"), 3)
    for number in range(5, 5 + 2 * DOOR_LOSSES_KEPT + 6, 2):
        file.passed("cloud", DoorGap("aa", number, number, "missing"), LandedPosition(number + 1), number)
    assert len(file.gaps("cloud")) == DOOR_LOSSES_KEPT
    state = file.state("cloud")
    assert state is not None
    assert state.gaps == DOOR_LOSSES_KEPT + 4
    file.close()


def test_a_damaged_file_is_set_aside_and_a_sound_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "doors.sqlite"
    assert set_aside(path) is None
    DoorFile(path).close()
    assert set_aside(path) is None
    path.write_bytes(b"")
    assert set_aside(path) == tmp_path / "doors.sqlite.damaged", "a new one would begin at the newest readings"
    path.write_bytes(b"no database" * 500)
    assert set_aside(path) == tmp_path / "doors.sqlite.damaged"
    assert not path.exists()


def test_a_newer_coveys_file_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "doors.sqlite"
    file = DoorFile(path)
    file._database.run("PRAGMA user_version = 99")
    file.close()
    with pytest.raises(ConfigurationError, match="newer Covey"):
        DoorFile(path)


def test_no_flipped_bit_gives_a_door_another_place(tmp_path: Path) -> None:
    path = tmp_path / "doors.sqlite"
    file = DoorFile(path)
    file.begin("cloud", {"aa": 1_000_000, "bb": 7}, 1)
    file.keep("cloud", Plan("aa", LandedPosition(1_000_001), LandedPosition(1_000_009, 3)))
    file.close()
    sound = path.read_bytes()
    at = sound.index(b"cloudaa") + 7
    for place in range(at, at + 8):
        for bit in range(8):
            path.write_bytes(sound[:place] + bytes([sound[place] ^ 1 << bit]) + sound[place + 1 :])
            if set_aside(path) is None:
                second = DoorFile(path)
                assert (second.place("cloud", "aa"), second.place("cloud", "bb")) == ((1_000_001, 0), (8, 0))
                second.close()


@pytest.mark.parametrize(
    ("before", "after"), [(b"attempts INTEGER", b"attemptt INTEGER"), (b"TABLE gap", b"TABLE gbp")]
)
def test_a_damaged_name_of_the_schema_sets_the_file_aside(tmp_path: Path, before: bytes, after: bytes) -> None:
    path = tmp_path / "doors.sqlite"
    file = DoorFile(path)
    file.begin("cloud", {"aa": 7}, 1)
    file.close()
    assert before in path.read_bytes()
    path.write_bytes(path.read_bytes().replace(before, after))
    assert set_aside(path) == tmp_path / "doors.sqlite.damaged"


@pytest.mark.parametrize("place", [18, 19, 44, 47])
def test_a_damaged_header_sets_the_file_aside(tmp_path: Path, place: int) -> None:
    path = tmp_path / "doors.sqlite"
    DoorFile(path).close()
    content = bytearray(path.read_bytes())
    content[place] ^= 64
    path.write_bytes(content)
    assert set_aside(path) == tmp_path / "doors.sqlite.damaged"
