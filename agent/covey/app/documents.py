"""How documents become JSON: what `--json` prints and the local API answers, as types, field by field.

Each subject has the types of its own documents in `SUBJECT/documents.py`; `openapi.py` describes them to other
languages. The extra part of an `Annotated` type is JSON Schema. A field whose name is a word of Python ends with an
underscore here, and without it in JSON. A field made by `here_only` is for code on the device itself; JSON does not
have it. A document that says `GROWS = True` may get further fields in a later version.

pydantic and msgspec would cost megabytes on a Pi for forty lines; a `TypedDict` has no defaults and no properties.
"""

from __future__ import annotations

from dataclasses import Field, dataclass, field, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from covey.errors import AgentVersionError


class Says:
    """JSON Schema attached to a type. No two are equal, so that types with them can be joined."""

    def __init__(self, **words: Any) -> None:
        self.words = words


Count = Annotated[int, Says(minimum=0)]
Age = Annotated[int, Says(minimum=0, description="seconds")]
DeviceName = Annotated[
    str, Says(pattern="^[0-9a-f]{8}$", description="a device's name: the beginning of its signing key")
]
GroupIdText = Annotated[str, Says(pattern="^[0-9a-f]{64}$")]

DAY_S = 86_400


def here_only(default: Any) -> Any:
    """Return a field that JSON does not have."""
    return field(default=default, metadata={"here": True})


def document_fields(kind: Any) -> list[Field[Any]]:
    """Return the fields that JSON has."""
    return [each for each in fields(kind) if "here" not in each.metadata]


@dataclass(frozen=True, slots=True)
class Deleted:
    """It is not there any more."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request was refused."""

    error: Annotated[str, Says(description="a stable code")]
    message: str
    hint: Annotated[str, Says(description="what to do, perhaps empty")]


Document = TypeVar("Document")

_IN_JSON: dict[Any, type] = {tuple: list, Literal: str}
"""Types that JSON has another one for."""


_SCALARS = (str, int, float, NoneType)


@cache
def _names(kind: Any) -> tuple[tuple[str, str], ...]:
    """Return for each field of a document what JSON calls it, and what Python does."""
    return tuple((each.name.rstrip("_"), each.name) for each in document_fields(kind))


def to_json(value: Any) -> Any:
    """Return a document as JSON values."""
    if isinstance(value, _SCALARS):
        return value
    if is_dataclass(value):
        kind: Any = type(value)
        return {said: to_json(getattr(value, name)) for said, name in _names(kind)}
    if isinstance(value, tuple):
        return [to_json(each) for each in value]
    if isinstance(value, dict):
        return {key: to_json(each) for key, each in value.items()}
    return value


def from_json(kind: type[Document], value: Any) -> Document:
    """Return JSON values of an agent as a document; what only a later version says is left out.

    Raises:
        AgentVersionError: the agent, of another version, does not say it, or says it in another way.
    """
    found: Document = _read(kind, value, "a document")
    return found


def _read(kind: Any, value: Any, name: str) -> Any:
    if get_origin(kind) is Annotated:
        return _read(get_args(kind)[0], value, name)
    if get_origin(kind) in {Union, UnionType}:
        (inner,) = (each for each in get_args(kind) if each is not NoneType)
        return None if value is None else _read(inner, value, name)
    form = get_origin(kind) or kind
    in_json: Any = _IN_JSON.get(form, dict if is_dataclass(form) else form)
    if not isinstance(value, in_json):
        raise AgentVersionError.lacking(name)
    if form is tuple:
        return tuple(_read(get_args(kind)[0], each, name) for each in value)
    if form is dict:
        return {key: _read(get_args(kind)[1], each, f"{name}.{key}") for key, each in value.items()}
    if is_dataclass(form):
        hints = get_type_hints(kind, include_extras=True)
        keys = {each.name: each.name.rstrip("_") for each in document_fields(kind)}
        if lacking := keys.values() - value.keys():
            raise AgentVersionError.lacking(min(lacking))
        return kind(**{field: _read(hints[field], value[key], key) for field, key in keys.items()})
    return value
