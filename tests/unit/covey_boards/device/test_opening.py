"""`covey.json`: a mistake in it costs the setting that it is in, and is told."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace

import pytest

from covey_boards.device import opening
from covey_boards.device.opening import read_settings
from hil.on_board.firmware_simulation import Files


def _read(raw: bytes) -> tuple[dict[str, object], str | None]:
    files = Files()
    files.write("covey.json", raw)
    settings, trouble = read_settings(files)
    return settings, trouble


def test_valid_settings_are_accepted() -> None:
    assert read_settings(Files()) == ({}, None)
    right = {"interval_seconds": 0.5, "samples": 3, "watchdog": False, "uart": {"id": 1}, "sensors": [], "mtu": 48}
    assert _read(json.dumps({**right, "batch_bytes": None}).encode()) == (right, None)


@pytest.mark.parametrize("raw", [b"{", b"", b"\xff", b"[1]", b'{"interval_seconds": 5,}'])
def test_a_file_that_is_none(raw: bytes) -> None:
    assert _read(raw) == (({}, "covey.json is no JSON object") if raw else ({}, None))


def test_no_beginning_of_a_file_is_taken_for_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """MicroPython 1.25 reads `{` as `{}`."""
    text = json.dumps({"sensors": [["analog", {"name": 'a"}]\\', "pin": 26}], ["memory", {}]], "samples": 3})
    monkeypatch.setattr(opening, "json", LenientJson)
    assert _read(text.encode())[1] is None
    for half in (*(text[:size] for size in range(1, len(text))), '{"sensors": [1}', '{"sensors": [1}]', "]", "[]]"):
        assert _read(half.encode()) == ({}, "covey.json is no JSON object")


class LenientJson:
    """Takes anything."""

    @staticmethod
    def loads(_: str) -> dict[str, object]:
        return {}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("interval_seconds", "ten"),
        ("interval_seconds", 0),
        ("interval_seconds", float("inf")),
        ("batch_seconds", True),
        ("samples", 2.5),
        ("batch_bytes", 1 << 20),
        ("mtu", 1),
        ("uart", 1),
        ("sensors", {"counter": {}}),
        ("watchdog", 0),
        ("intervall_seconds", 5),
    ],
)
def test_a_setting_that_is_wrong_counts_as_not_there_and_is_named(name: str, value: object) -> None:
    settings, trouble = _read(json.dumps({"report_seconds": 7, name: value}).encode())
    assert settings == {"report_seconds": 7}
    assert trouble == f"covey.json: what of {name}?"


@pytest.mark.parametrize(
    ("text", "port_has_one", "timeout_ms"),
    [
        (b"{}", True, 8_000),
        (b'{"watchdog": "off"}', True, 8_000),
        (b'{"watchdog": false}', True, None),
        (b"{}", False, None),
    ],
)
def test_the_watchdog_is_on_unless_somebody_turns_it_off(
    monkeypatch: pytest.MonkeyPatch, text: bytes, port_has_one: bool, timeout_ms: int | None
) -> None:
    machine = SimpleNamespace(WDT=lambda timeout: timeout) if port_has_one else SimpleNamespace()
    monkeypatch.setitem(sys.modules, "machine", machine)
    console = SimpleNamespace(read=lambda _wait_ms: b"")
    times = iter(range(0, 100_000_000, 400_000))
    files = Files()
    files.write("covey.json", text)
    line, watchdog, *_ = opening.start(files, lambda _mtu: console, SimpleNamespace(now_us=lambda: next(times)))
    assert line is console
    assert watchdog == timeout_ms
