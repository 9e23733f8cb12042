"""`covey.core.history.operation`: one operation by itself, by the vectors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from covey.core.history.operation import operation_id, read_operation, sign_operation
from covey.errors import MalformedError, RemoteError
from covey.limits.history import MAXIMUM_OPERATION_BYTES
from tests.vectors import vectors
from tests.vectors.makers.cast import ALICE, BOB, CAROL
from tests.vectors.makers.history import FIRST, SECOND


@pytest.mark.parametrize("vector", vectors("history", "operations"))
def test_operations(vector: dict[str, Any]) -> None:  # accepts: 003.27, 003.33
    raw = bytes.fromhex(vector["bytes"])
    if vector["code"] is not None:
        with pytest.raises(RemoteError) as caught:
            read_operation(raw)
        assert caught.value.code == vector["code"]
        return
    operation = read_operation(raw)
    assert (operation.id.hex(), operation.author.hex()) == (vector["id"], vector["author"])
    assert (operation.number, operation.height, operation.kind) == (vector["number"], vector["height"], vector["kind"])
    assert [each.hex() for each in operation.parents] == vector["parents"]
    assert (operation.manifest.hex(), operation.body.hex()) == (vector["manifest"], vector["body"])
    author = next(each for each in (ALICE, BOB, CAROL) if each.signing_public == operation.author)
    assert sign_operation(operation, author).raw == raw


def test_an_operation_too_long_is_refused_unread() -> None:  # accepts: 003.27
    with pytest.raises(RemoteError) as caught:
        read_operation(b"\xff" * (MAXIMUM_OPERATION_BYTES + 1))
    assert caught.value.code == "limit"


def test_no_operation_is_numbered_0_whatever_it_names_before_it() -> None:
    with pytest.raises(MalformedError, match="numbered from 1"):
        sign_operation(replace(SECOND, number=0), ALICE)


def test_every_change_makes_another_id() -> None:  # accepts: 003.06
    assert FIRST.id == operation_id(FIRST.raw) != operation_id(FIRST.raw + b"\x00")
