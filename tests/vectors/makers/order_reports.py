"""Of orders.json: how devices report what became of commands and settings, and reports that are refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from covey.core.actions.results import LATE, TIME, WENT_DOWN, CommandState, OrderResult
from covey.core.ids import OperationId
from covey.core.settings.states import ReportedSetting, SettingReport, SettingState
from tests.vectors.makers.cast import NOW_US, cbor, seeded


def results() -> list[dict[str, Any]]:
    """Return bodies of `ORDER_RESULT`."""
    order_id, start_us = OperationId(seeded("order")), NOW_US + 1_000_000
    ended = (NOW_US, NOW_US + 2_000_000, start_us)
    done, refused = CommandState.DONE, CommandState.REFUSED
    taken = {
        "done": OrderResult(order_id, done, *ended, synchronised=True, exit=0, output=b"ok\n"),
        "ended by a signal, with more output": OrderResult(order_id, done, *ended, exit=-9, output=b"\xff\0", cut=True),
        "stopped": OrderResult(
            order_id, CommandState.STOPPED, *ended, synchronised=True, output=b"here", code=TIME, why="60 s were up"
        ),
        "refused": OrderResult(order_id, refused, NOW_US, NOW_US, code=LATE, why="its deadline had passed"),
        "unknown": OrderResult(order_id, CommandState.UNKNOWN, *ended, code=WENT_DOWN, why="the power was cut"),
    }
    times: list[object] = [NOW_US, start_us, NOW_US + 2_000_000, True]
    wrong: dict[tuple[str, str], object] = {
        ("not final", "malformed"): [order_id, 1, None, b"", False, *times, "a", ""],
        ("of a state of later", "malformed"): [order_id, 6, None, b"", False, *times, "a", ""],
        ("done without an exit code", "malformed"): [order_id, 2, None, b"", False, *times, "", ""],
        ("done with a code", "malformed"): [order_id, 2, 0, b"", False, *times, "a", ""],
        ("an exit code beyond all", "malformed"): [order_id, 2, 256, b"", False, *times, "", ""],
        ("refused without a code", "malformed"): [order_id, 4, None, b"", False, NOW_US, None, NOW_US, True, "", ""],
        ("refused after a start", "malformed"): [order_id, 4, None, b"", False, *times, "a", ""],
        ("stopped without a start", "malformed"): [order_id, 3, None, b"", False, NOW_US, None, NOW_US, True, "a", ""],
        ("an order's id too short", "malformed"): [b"order", 2, 0, b"", False, *times, "", ""],
        ("the key of a setting, by no board", "malformed"): [order_id, 2, 0, b"", False, *times, "", "", "app.a"],
        ("a sentence too long", "limit"): [order_id, 5, None, b"", False, *times, "a", "x" * 257],
    }
    return [
        *({"name": name, "code": None, "bytes": result.to_wire().hex()} for name, result in taken.items()),
        *({"name": name, "code": code, "bytes": cbor(body).hex()} for (name, code), body in wrong.items()),
    ]


def reports() -> list[dict[str, Any]]:
    """Return bodies of `SETTING_REPORT`."""
    order_id = OperationId(seeded("order"))
    applied = ReportedSetting("telemetry.batch_seconds", order_id, SettingState.APPLIED, "2.5")
    states = (
        ReportedSetting("app.pump.speed", order_id, SettingState.HANDED_OVER),
        ReportedSetting("group.name", order_id, SettingState.REFUSED, None, "setting_local", "for the owner alone"),
        ReportedSetting("relay.url", order_id, SettingState.TRIED, "mqtts://relay"),
        ReportedSetting("sensors.enabled", order_id, SettingState.RESTARTING, False),
        applied,
        ReportedSetting("vault.url", order_id, SettingState.REVERTED, -1, "not_started", "no start in 3 tries"),
        ReportedSetting("work.mode", order_id, SettingState.REPLACED),
    )
    longest = ReportedSetting("k" * 96, order_id, SettingState.REFUSED, "v" * 1_024, "c" * 32, "w" * 256)
    numbers = (replace(applied, key="a", value=2**63 - 1), replace(applied, key="b", value=-(2**63)))
    taken: dict[str, tuple[ReportedSetting, ...]] = {
        "nothing is asked for any more": (),
        "one that holds": (applied,),
        "one of each state": states,
        "the longest of all": (longest,),
        "the farthest numbers": numbers,
        "as many as a report holds": tuple(replace(applied, key=f"app.{number:03}") for number in range(128)),
    }
    good: list[object] = ["a", order_id, 1, None, "", ""]
    wrong: dict[tuple[str, str], object] = {
        ("no list", "malformed"): {},
        ("a setting without a reason's place", "malformed"): [good[:5]],
        ("a setting of one more field", "malformed"): [[*good, 0]],
        ("of a state of later", "malformed"): [["a", order_id, 7, None, "", ""]],
        ("a state below all", "malformed"): [["a", order_id, -1, None, "", ""]],
        ("a key twice", "malformed"): [good, good],
        ("keys that descend", "malformed"): [["b", *good[1:]], good],
        ("a report's order's id too short", "malformed"): [["a", b"order", 1, None, "", ""]],
        ("a reported value that is a list", "malformed"): [["a", order_id, 1, [1], "", ""]],
        ("a reported value that is bytes", "malformed"): [["a", order_id, 1, b"1", "", ""]],
        ("a reported value too long", "limit"): [["a", order_id, 1, "x" * 1_025, "", ""]],
        ("a reported key too long", "limit"): [["k" * 97, *good[1:]]],
        ("a setting's code too long", "limit"): [["a", order_id, 2, None, "x" * 33, ""]],
        ("a setting's sentence too long", "limit"): [["a", order_id, 2, None, "a", "x" * 257]],
        ("one setting too many", "limit"): [[f"{number:03}", *good[1:]] for number in range(129)],
    }
    return [
        *({"name": name, "code": None, "bytes": SettingReport(each).to_wire().hex()} for name, each in taken.items()),
        *({"name": name, "code": code, "bytes": cbor(body).hex()} for (name, code), body in wrong.items()),
    ]
