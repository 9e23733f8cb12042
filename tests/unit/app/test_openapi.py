"""The schema of a type says what the type says."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest

from covey.app.api.operations import OPERATIONS, api_description
from covey.app.checks.documents import BytesByClass, Status
from covey.app.documents import Says, document_fields
from covey.app.openapi import schema_of

_REFERENCE = {"$ref": "#/components/schemas/BytesByClass"}


@pytest.mark.parametrize(
    ("kind", "schema"),
    [
        (str, {"type": "string"}),
        (bool, {"type": "boolean"}),
        (int | None, {"type": ["integer", "null"]}),
        (Annotated[int, Says(minimum=1)], {"type": "integer", "minimum": 1}),
        (Annotated[int, Says(minimum=1)] | None, {"type": ["integer", "null"], "minimum": 1}),
        (tuple[str, ...], {"type": "array", "items": {"type": "string"}}),
        (dict[str, int | None], {"type": "object", "additionalProperties": {"type": ["integer", "null"]}}),
        (Literal["a", "b"], {"enum": ["a", "b"]}),
        (BytesByClass, _REFERENCE),
        (BytesByClass | None, {"anyOf": [_REFERENCE, {"type": "null"}]}),
    ],
)
def test_a_type_has_a_schema(kind: Any, schema: dict[str, Any]) -> None:
    assert schema_of(kind, set()) == schema


def _references(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
        return own.union(*(_references(each) for each in value.values()))
    return set().union(*(_references(each) for each in value)) if isinstance(value, list) else set()


def test_every_operation_is_described_and_every_reference_leads_somewhere() -> None:
    description = api_description()
    described = {each["operationId"] for methods in description["paths"].values() for each in methods.values()}
    assert described == {each.name for each in OPERATIONS}
    there = {f"#/components/{kind}/{name}" for kind, found in description["components"].items() for name in found}
    assert _references(description) <= there


def test_a_status_is_described_field_by_field_and_may_grow() -> None:
    schema = api_description()["components"]["schemas"]["Status"]
    assert schema["required"] == [*schema["properties"]] == [each.name for each in document_fields(Status)]
    assert schema["additionalProperties"] is True
