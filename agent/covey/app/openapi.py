"""The description of the local API (OpenAPI 3.1), drawn from its operations and from the types of what they answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, is_dataclass
from inspect import getdoc
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from covey.app.documents import Refusal, document_fields

Schema = dict[str, Any]

_PRIMITIVES = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null"}

REFUSALS = {
    "Wrong": (400, "the request is wrong; `error` says how"),
    "NotHere": (404, "no such path"),
    "OtherRequest": (409, "another request used this idempotency key; nothing was queued"),
    "NoLength": (411, "a Content-Length is required"),
    "TooLong": (413, "the body is too long"),
    "Encoded": (415, "the body has an encoding other than gzip"),
    "NoStorage": (503, "the disk refuses writes; nothing was changed"),
    "NotNow": (503, "no relay connection, or rate limit exceeded; nothing was sent"),
    "OutboxFull": (507, "the outbox is full; nothing was queued"),
}


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter in the path of a request, or after it."""

    name: str
    schema: Schema
    description: str = ""
    where: Literal["query", "path", "header"] = "query"

    def described(self) -> Schema:
        """Return it as OpenAPI has it."""
        found: Schema = {"name": self.name, "in": self.where, "schema": self.schema}
        if self.where == "path":
            found["required"] = True
        return found | ({"description": self.description} if self.description else {})


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One method on one path: what it takes, what it answers by media type (a type of ours, or a schema), what not."""

    name: str
    method: str
    path: str
    summary: str
    said: str
    answers: Mapping[str, Any]
    parameters: tuple[Parameter, ...] = ()
    body: Mapping[str, Schema] = field(default_factory=dict)
    refusals: tuple[str, ...] = ("NoStorage",)
    description: str = ""
    events: Mapping[str, type] = field(default_factory=dict)
    """Of server-sent events, which it answers where there are any: what the data of each type is."""
    status: int = 200
    """Where there is nothing to say: 204."""

    def described(self, types: set[type]) -> Schema:
        """Return it as OpenAPI has it; the types that it names are added to `types`."""
        content = {
            media: {"schema": answer if isinstance(answer, dict) else schema_of(answer, types)}
            for media, answer in self.answers.items()
        }
        if self.events:
            events = [_event(name, schema_of(kind, types)) for name, kind in self.events.items()]
            content["text/event-stream"] = {"schema": {"oneOf": events}}
        done: Schema = {"description": self.said}
        responses: Schema = {str(self.status): done | ({"content": content} if content else {})}
        for name in ("Wrong", "TooLong", *self.refusals):
            responses[str(REFUSALS[name][0])] = {"$ref": f"#/components/responses/{name}"}
        found: Schema = {"operationId": self.name, "summary": self.summary}
        if self.description:
            found["description"] = self.description
        if self.parameters:
            found["parameters"] = [each.described() for each in self.parameters]
        if self.body:
            found["requestBody"] = {"required": False, "content": dict(self.body)}
        return found | {"responses": responses}


def description(operations: Iterable[Endpoint], about: Schema, schemas: Mapping[str, Schema]) -> Schema:
    """Return the whole description: `about` it, its operations, and the schemas of what is no type of ours."""
    types: set[type] = set()
    paths: dict[str, Schema] = {}
    for each in operations:
        paths.setdefault(each.path, {})[each.method.lower()] = each.described(types)
    refused = {"application/json": {"schema": schema_of(Refusal, types)}}
    responses = {name: {"description": text, "content": refused} for name, (_, text) in REFUSALS.items()}
    components: dict[str, Schema] = dict(schemas)
    while missing := sorted(
        (each for each in types if each.__name__ not in components), key=lambda each: each.__name__
    ):
        components |= {each.__name__: _object(each, types) for each in missing}
    return {"openapi": "3.1.0", **about, "paths": paths, "components": {"responses": responses, "schemas": components}}


def _event(name: str, data: Schema) -> Schema:
    """Return the schema of a server-sent event, as OpenAPI 3.2 has it: its fields, whose data are JSON."""
    content = {"type": "string", "contentMediaType": "application/json", "contentSchema": data}
    properties = {"id": {"type": "string"}, "event": {"const": name}, "data": content}
    return {"type": "object", "required": ["event", "data"], "properties": properties}


def schema_of(kind: Any, types: set[type]) -> Schema:
    """Return the JSON Schema of a type; the dataclasses that it names are added to `types`."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        found = schema_of(inner[0], types)
        for more in inner[1:]:
            found = found | more.words
        return found
    if is_dataclass(kind) and isinstance(kind, type):
        types.add(kind)
        return {"$ref": f"#/components/schemas/{kind.__name__}"}
    return {"type": _PRIMITIVES[kind]} if origin is None else _generic(origin, inner, types)


def _generic(origin: Any, inner: tuple[Any, ...], types: set[type]) -> Schema:
    if origin is Literal:
        return {"enum": [*inner]}
    if origin is tuple:
        return {"type": "array", "items": schema_of(inner[0], types)}
    if origin is dict:
        return {"type": "object", "additionalProperties": schema_of(inner[1], types)}
    if len(inner) > 2:  # what is left is one of some plain values, or an optional value
        return {"type": [_PRIMITIVES[each] for each in inner]}
    (some,) = (each for each in inner if each is not NoneType)
    found = schema_of(some, types)
    return found | {"type": [found["type"], "null"]} if "type" in found else {"anyOf": [found, {"type": "null"}]}


def _object(kind: type, types: set[type]) -> Schema:
    hints = get_type_hints(kind, include_extras=True)
    properties = {each.name.rstrip("_"): schema_of(hints[each.name], types) for each in document_fields(kind)}
    return {
        "type": "object",
        "description": getdoc(kind),
        "required": [*properties],
        "properties": properties,
        "additionalProperties": getattr(kind, "GROWS", False),
    }
