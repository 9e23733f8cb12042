"""`covey.core.ids`: names, node ids, hex, and text of peers."""

from __future__ import annotations

import hashlib

import pytest

from covey.core.ids import (
    DeviceKey,
    check_character,
    device_name,
    fingerprint,
    from_hex,
    key_from_text,
    key_text,
    labelled_name,
    node_id,
    printable,
    truncate_utf8,
)
from covey.core.wire.topics import inbox_topic
from covey.errors import MalformedError
from tests.vectors import load


def test_a_device_is_named_by_the_first_four_bytes_of_its_signing_key() -> None:  # accepts: 000.08
    assert device_name(DeviceKey(bytes.fromhex("0badcafe" + "00" * 28))) == "0badcafe"


def test_a_node_id_is_a_hash_of_the_signing_key() -> None:
    key = DeviceKey(bytes(range(32)))
    assert node_id(key) == hashlib.blake2b(key, digest_size=16, person=b"covey/1 node").digest()
    vault = load("vault")
    assert node_id(DeviceKey(bytes.fromhex(vault["keys"]["bob"]["signing_public"]))).hex() == vault["node"]["node_id"]


@pytest.mark.parametrize(
    "value",
    ["", "0", "00112", "0011223", "00 1", "00AA", "0x11", "\u0660\u0661\u0662\u0663", "../.", "00/1", "+0-1", "0_11"],
)
def test_only_lower_case_hex_of_the_right_length_is_an_id(value: str) -> None:
    with pytest.raises(MalformedError):
        from_hex(value, 2)


def test_hex_is_read() -> None:
    assert from_hex("00ff", 2) == b"\x00\xff"
    assert from_hex("", 0) == b""


@pytest.mark.parametrize("dangerous", ["\x1b[31m", "a\nb", "a\rb", "\u202eevil", "\u2066x", "\x9b", "\ud800", "\x00"])
def test_text_of_a_peer_cannot_drive_a_terminal(dangerous: str) -> None:
    shown = printable(dangerous)
    assert shown.isprintable()
    assert "\N{REPLACEMENT CHARACTER}" in shown


def test_text_of_a_peer_is_cut() -> None:
    assert printable("gr\u00fcn") == "gr\u00fcn"
    assert printable("x" * 500, 10) == "x" * 9 + "\N{HORIZONTAL ELLIPSIS}"


@pytest.mark.parametrize(
    ("value", "maximum", "expected"),
    [("abc", 3, "abc"), ("abc", 2, "ab"), ("\u00fc\u00fc", 3, "\u00fc"), ("\U0001f426", 3, ""), ("", 0, "")],
)
def test_labels_are_cut_between_characters(value: str, maximum: int, expected: str) -> None:  # accepts: 002.30
    assert truncate_utf8(value, maximum) == expected


def test_a_label_from_a_command_line_that_is_not_unicode_does_no_harm() -> None:
    assert truncate_utf8("pi\udcff", 64) == "pi?"


def test_the_relay_learns_half_of_the_recipients_key_and_nothing_else() -> None:  # accepts: 000.27
    assert inbox_topic(DeviceKey(bytes(15) + b"\xfe" + bytes(16))) == "covey/1/in/" + "00" * 15 + "fe"
    with pytest.raises(MalformedError):
        inbox_topic(DeviceKey(bytes(31)))


def test_fingerprints_have_check_letters() -> None:
    made = fingerprint(bytes(32))
    groups = made.split("-")
    assert [len(group) for group in groups] == [9, 9, 9, 9]
    assert all(group[8] == check_character(group[:8]) for group in groups)
    assert fingerprint(bytes(31) + b"\x01") != made
    group = groups[0]
    for place in range(8):
        for character in "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567":
            if character != group[place]:
                assert check_character(group[:place] + character + group[place + 1 : 8]) != group[8]


def test_keys_as_text_have_a_kind_and_a_checksum() -> None:
    key = bytes(range(32))
    text = key_text("sign", key)
    assert text.startswith("covey-sign-")
    assert key_from_text("sign", text) == key_from_text("sign", text[:11] + text[11:].upper()) == key
    wrong = [
        text.replace("sign", "noise"),
        text[:-1],
        text + "a",
        text[:20] + ("a" if text[20] != "a" else "b") + text[21:],
        text[:20] + "1" + text[21:],
        "",
        *(text[:-1] + character for character in "abcdefghijklmnopqrstuvwxyz234567" if character != text[-1]),
    ]
    for mistyped in wrong:
        with pytest.raises(MalformedError):
            key_from_text("sign", mistyped)
    with pytest.raises(MalformedError):
        key_from_text("noise", text)


@pytest.mark.parametrize(
    ("label", "shown"),
    [
        ("", "0a1b2c3d"),
        ("pump", "0a1b2c3d pump"),
        ("\x1b[31m\nerror: \u202epmup", "0a1b2c3d \ufffd[31m\ufffderror: \ufffdpmup"),
        ("x" * 500, "0a1b2c3d " + "x" * 31 + "\N{HORIZONTAL ELLIPSIS}"),
    ],
)
def test_a_label_is_shown_next_to_the_name_and_is_harmless(label: str, shown: str) -> None:
    assert labelled_name("0a1b2c3d", label) == shown
