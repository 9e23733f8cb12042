"""`covey.core.telemetry.packages`: lists go through readings and come out the same; versions compare as dpkg does."""

from __future__ import annotations

import random
import shutil
import subprocess
import zlib

import pytest

from covey.core.telemetry import packages
from covey.core.telemetry.packages import PackageQuery, compared
from covey.errors import LimitError, MalformedError, RemoteError
from covey.limits.telemetry import MAXIMUM_INVENTORY_BYTES, MAXIMUM_TEXT_VALUE_BYTES

_SIX_HUNDRED = {f"lib{number}-dev": f"1:{number}.{number % 7}-{number % 3}+deb12u{number % 5}" for number in range(600)}


def test_a_list_comes_back_from_its_pieces_in_any_order() -> None:
    chance = random.Random(1)
    many = _SIX_HUNDRED | {f"p{chance.randbytes(9).hex()}": chance.randbytes(6).hex() for _ in range(1_000)}
    content = packages.packed(many)
    pieces = packages.pieces(content)
    assert len(pieces) > 3
    assert all(len(each) <= MAXIMUM_TEXT_VALUE_BYTES for each in pieces)
    chance.shuffle(pieces)
    assert packages.joined(pieces) == content
    assert packages.unpacked(content) == many


def test_pieces_that_do_not_belong_together_make_nothing() -> None:
    chance = random.Random(2)
    one, other = (
        packages.pieces(packages.packed({chance.randbytes(20).hex(): "1" for _ in range(500)})) for _ in range(2)
    )
    assert len(one) > 1
    for wrong in ([], one[:-1], [*one[:-1], other[-1]], [*one, *other], [b"\2" + one[0][1:]], [b""]):
        assert packages.joined(wrong) is None


@pytest.mark.slow
def test_what_is_no_list_is_refused_and_inflates_no_further_than_its_bound() -> None:
    bomb = zlib.compress(bytes(50_000_000), 9)
    for wrong in (b"", b"no list", packages.packed(_SIX_HUNDRED)[:-3], bomb, bytes(MAXIMUM_INVENTORY_BYTES + 1)):
        with pytest.raises(RemoteError):
            packages.unpacked(wrong)
    with pytest.raises(LimitError):
        packages.packed({f"{number:x}" * 9: "1" for number in range(60_000)})


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("openssl", ["openssl"]),
        ("openssl<3.0.17", ["openssl"]),
        ("openssl < 3.0.16-1", ["openssl"]),
        ("openssl>=3.0.16-1~deb12u1", ["openssl"]),
        ("openssl=3.0.16-1~deb12u1", ["openssl"]),
        ("openssl!=3.0.16-1~deb12u1", []),
        ("lib*", ["libc6", "libc6:armhf"]),
        ("libc6", ["libc6", "libc6:armhf"]),
        ("libc6:armhf", ["libc6:armhf"]),
        ("nginx", []),
    ],
)
def test_a_query_finds_packages(text: str, names: list[str]) -> None:
    installed = {"openssl": "3.0.16-1~deb12u1", "libc6": "2.36-9", "libc6:armhf": "2.36-9"}
    assert [name for name, _ in PackageQuery.parse(text).of(installed)] == names


@pytest.mark.parametrize("text", ["", "<3", "openssl<", "OpenSSL", "open ssl <3 4<5", "-x"])
def test_other_texts_are_no_query(text: str) -> None:
    with pytest.raises(MalformedError):
        PackageQuery.parse(text)


_VERSIONS = [
    *(
        "1",
        "1.0",
        "1.0-1",
        "1.0-1~deb12u1",
        "1.0-1+b1",
        "1.0~rc1",
        "1.0~~",
        "1:0.9",
        "0:1.0",
        "1.0a",
        "1.0.1",
        "1.0+dfsg",
    ),
    *(
        "2.36-9+deb12u10",
        "2.36-9+deb12u9",
        "1.0-0",
        "10",
        "9",
        "1.a",
        "1.+",
        "1.~",
        "00001",
        "1-2-3",
        "1.0.0.0",
    ),
    *("3.0.16-1~deb12u1", "3.0.17-1~deb12u2", "3.0.9-1", "7:5.1.6-0+deb12u1", "20230311", "1.0-1.1", "0~git2021", ""),
]


@pytest.mark.slow
@pytest.mark.processes
def test_versions_compare_as_dpkg_says() -> None:
    if shutil.which("dpkg") is None:
        pytest.skip("dpkg is not installed")
    chance = random.Random(3)
    made = ["".join(chance.choices("0123456789.+~abZ", k=chance.randint(1, 8))) for _ in range(40)]
    known = [each for each in (*_VERSIONS, *(f"{chance.choice(('', '1:'))}1{each}" for each in made)) if each]
    for _ in range(150):
        one, other = chance.choice(known), chance.choice(known)
        order = compared(one, other)
        asked = subprocess.run(["dpkg", "--compare-versions", one, "lt", other], check=False, stderr=subprocess.PIPE)
        assert (asked.returncode == 0) == (order < 0), (one, other)
        assert compared(other, one) == -order or (order and compared(other, one) * order < 0)
