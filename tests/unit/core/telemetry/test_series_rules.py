"""`covey.core.telemetry.series_rules`: which readings are alarms, and how many."""

from __future__ import annotations

import pytest

from covey.core.telemetry.batch import Alarm
from covey.core.telemetry.series_rules import Keep, SeriesWatch, read_series_rule
from covey.errors import ConfigurationError
from covey.limits.telemetry import ALARMS_PER_HOUR, MAXIMUM_ALARM_SERIES

_HOUR_US = 3_600_000_000
R, E, C, N = Alarm.RAISED, Alarm.ENDED, Alarm.CHANGED, None


@pytest.mark.parametrize(
    ("rule", "values", "alarms"),
    [
        ("a alarm > 80", [79, 80, 80.1, 90, 80.1, 80, 81], [N, N, R, N, N, E, R]),
        ("a alarm > 80 hysteresis 5", [81, 79, 81, 76, 75, 81], [R, N, N, N, E, R]),
        ("a alarm < 3.2 hysteresis 0.1", [3.3, 3.1, 3.2, 3.29, 3.4], [N, R, N, N, E]),
        ("* alarm change > 5", [1, 6, 12, 12, 6.5, 0], [N, N, C, N, C, C]),
        ("a alarm change > 0", [True, True, False], [N, N, C]),
        ("b* alarm > 0", [5], [N]),
        ("a alarm>-1e1", [-11, "warm", b"", float("inf"), float("nan"), -9], [N, N, N, N, N, R]),
    ],
)
def test_a_rule_marks_the_reading_that_crosses_its_limit_and_the_one_that_ends_it(
    rule: str, values: list[float], alarms: list[Alarm | None]
) -> None:
    watch = SeriesWatch([rule])
    assert [watch.judge("a", "", value, 0) for value in values] == alarms


@pytest.mark.parametrize(
    ("pattern", "names", "others"),
    [
        ("a/b", ["a/b"], ["a/bc", "a"]),
        ("a*", ["a", "abc"], ["ba", ""]),
        ("*b", ["b", "ab"], ["ba"]),
        ("a*a", ["aa", "aba"], ["a"]),
        ("a*b*c", ["abc", "a1b2c", "abbc"], ["acb", "ac"]),
        ("*a*a*", ["aa", "bab a"], ["a"]),
        ("[ab]", ["[ab]"], ["a"]),
    ],
)
def test_a_star_matches_anything(pattern: str, names: list[str], others: list[str]) -> None:
    rule = read_series_rule(f"{pattern} alarm > 0")
    assert [rule.names(each) for each in names + others] == [True] * len(names) + [False] * len(others)


def test_an_alarm_that_an_earlier_process_has_raised_ends_and_is_not_raised_again() -> None:
    before, after = SeriesWatch(["a* alarm > 0", "b alarm change > 1"]), SeriesWatch(["a* alarm > 0"])
    before.judge("a/2", "V", 1.0, 0)
    before.judge("a/1", "V", 1.0, 0)
    before.judge("a/3", "V", -1.0, 0)
    assert before.in_alarm() == [("a/1", "V"), ("a/2", "V")]
    after.resume([*before.in_alarm(), ("b", ""), ("c", "")])
    assert after.in_alarm() == before.in_alarm()
    assert after.judge("a/1", "V", 2.0, 0) is None
    assert after.judge("a/2", "V", -1.0, 0) is Alarm.ENDED
    assert after.in_alarm() == [("a/1", "V")]


def test_the_first_rule_that_matches_counts() -> None:
    watch = SeriesWatch(["cpu/0 alarm > 90", "cpu/* alarm > 50"])
    assert watch.judge("cpu/0", "", 60.0, 0) is None
    assert watch.judge("cpu/1", "", 60.0, 0) is Alarm.RAISED


def test_a_value_that_hovers_raises_a_bounded_number_of_alarms_an_hour_and_the_rest_is_counted() -> None:
    watch = SeriesWatch(["a alarm > 0"])
    found = [watch.judge("a", "", value, at_us) for at_us in range(100) for value in (1.0, -1.0)]
    assert found.count(Alarm.RAISED) == found.count(Alarm.ENDED) == ALARMS_PER_HOUR
    assert watch.take_suppressed() == 100 - ALARMS_PER_HOUR
    assert watch.take_suppressed() == 0
    assert watch.judge("b", "", 1.0, 100) is None
    assert watch.judge("a", "", 1.0, _HOUR_US) is Alarm.RAISED


def test_the_series_that_are_judged_are_bounded_and_names_without_a_rule_are_not_among_them() -> None:
    watch = SeriesWatch(["a* alarm > 0"])
    for number in range(2 * MAXIMUM_ALARM_SERIES):
        watch.judge(f"b{number}", "", 1.0, 0)
    for number in range(MAXIMUM_ALARM_SERIES):
        assert watch.judge(f"a{number}", "", 1.0, 0) is Alarm.RAISED
    assert watch.judge("a", "", 1.0, 0) is None
    assert watch.take_suppressed() == 1
    assert watch.judge("a7", "", 0.0, 0) is Alarm.ENDED


def test_an_alarm_that_was_not_stored_is_raised_again() -> None:
    watch = SeriesWatch(["a alarm > 0"])
    for _ in range(2 * ALARMS_PER_HOUR):
        assert watch.judge("a", "", 1.0, 0) is Alarm.RAISED
        watch.withdraw("a", "")


def test_the_first_rule_with_keep_says_what_is_kept_and_the_first_with_alarm_what_is_an_alarm() -> None:
    watch = SeriesWatch(
        ["meter/* keep whole", "meter/gas alarm > 5 keep newest", "cpu/* keep newest", "cpu/0 keep thin"]
    )
    kept = [watch.keep(name) for name in ("meter/gas", "cpu/0", "cpu/1", "other")]
    assert kept == [Keep.WHOLE, Keep.NEWEST, Keep.NEWEST, Keep.THIN]
    assert [watch.is_newest_only(name) for name in ("meter/gas", "cpu/0", "other")] == [False, True, False]
    assert watch.judge("meter/gas", "", 6.0, 0) is Alarm.RAISED
    watch.change(["cpu/* keep whole"])
    assert watch.keep("cpu/0") is Keep.WHOLE
    assert watch.keep("meter/gas") is Keep.THIN


def test_names_whose_keep_is_remembered_are_bounded() -> None:
    watch = SeriesWatch(["a* keep whole"])
    for number in range(2 * MAXIMUM_ALARM_SERIES):
        assert watch.keep(f"b{number}") is Keep.THIN
    assert len(watch._kept) <= MAXIMUM_ALARM_SERIES
    assert watch.keep("a") is Keep.WHOLE


@pytest.mark.parametrize(
    "rule",
    [
        "",
        "a",
        "a alarm",
        "a alarm 5",
        "a alarm >= 5",
        "a alarm > five",
        "a alarm > 1e999",
        "a alarm > 1 hysteresis -1",
        "a alarm > 1 hysteresis 1e999",
        "a alarm change > -1",
        "a alarm change > 1 hysteresis 1",
        "a alarm change < 1",
        "a b alarm > 1",
        f"{'a' * 300} alarm > 1",
        "keep whole",
        "a keep",
        "a keep some",
        "a keep WHOLE",
        "a keep 5",
        "a keep whole thin",
        "a keep whole keep thin",
        "a keep whole alarm > 1",
        "a alarm keep whole",
    ],
)
def test_what_is_no_rule_is_refused_with_the_grammar(rule: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        read_series_rule(rule)
    assert refused.value.hint
    for word in (
        "alarm > N",
        "alarm < N",
        "hysteresis N",
        "alarm change > N",
        "keep whole",
        "keep thin",
        "keep newest",
    ):
        assert word in refused.value.hint
