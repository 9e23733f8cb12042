"""The operations of the local API on files: what each takes and answers."""

from __future__ import annotations

from covey.app.content.documents import DeletedFile, HeldFile, OfferedFile, PinnedFile
from covey.app.openapi import Endpoint, Parameter
from covey.limits.content import MAXIMUM_CONTENT_BYTES, MAXIMUM_FILE_NAME_BYTES

_JSON = "application/json"
_NDJSON = "application/x-ndjson"
_OCTETS = {"schema": {"type": "string", "contentEncoding": "binary"}}
_FOLLOW_S_MAX = 86_400


def _flag(name: str, text: str) -> Parameter:
    return Parameter(name, {"type": "integer", "minimum": 0, "maximum": 1}, text)


_REF = Parameter(
    "ref",
    {"type": "string", "minLength": 1, "maxLength": MAXIMUM_FILE_NAME_BYTES},
    "its name, of which the newest file is meant, or the beginning of its id or hash",
    "path",
)
_FOLLOW = Parameter(
    "follow",
    {"type": "integer", "minimum": 0, "maximum": _FOLLOW_S_MAX},
    "go on for so many seconds (default: 600); what has not come by then is asked for still",
)


def content_operations(group: Parameter) -> tuple[Endpoint, ...]:
    """Return the operations; `group` says how a request names a group."""
    return (*_of_all(group), *_of_one(group))


def _of_all(group: Parameter) -> tuple[Endpoint, ...]:
    return (
        Endpoint(
            "list_content",
            "GET",
            "/v1/content",
            "The files that members of a group offer, the newest first, and what is here of them",
            "a file in each line",
            {_NDJSON: OfferedFile},
            (group, _flag("waiting", "1: only what this device has asked for and not got yet")),
        ),
        Endpoint(
            "put_content",
            "POST",
            "/v1/content",
            "Seal a file for the members of a group, and offer it to them, durably",
            "offered; it stays here until it is dropped",
            {_JSON: OfferedFile},
            (
                Parameter(
                    "name",
                    {"type": "string", "minLength": 1, "maxLength": MAXIMUM_FILE_NAME_BYTES},
                    "what it is called: no path. It has to be there",
                ),
                group,
            ),
            {"application/octet-stream": _OCTETS},
            ("NoLength", "Encoded", "NoStorage"),
            f"At most {MAXIMUM_CONTENT_BYTES:,} bytes, which no memory holds; one file at a time, a second one is "
            "answered 503.",
        ),
    )


def _of_one(group: Parameter) -> tuple[Endpoint, ...]:
    return (
        Endpoint(
            "show_content",
            "GET",
            "/v1/content/{ref}",
            "One file, and who has it",
            "as `covey file show`",
            {_JSON: HeldFile},
            (_REF, group),
            refusals=("NotHere", "NoStorage"),
        ),
        Endpoint(
            "get_content",
            "GET",
            "/v1/content/{ref}/file",
            "What a file that is here holds",
            "its bytes",
            {"application/octet-stream": {"type": "string", "contentEncoding": "binary"}},
            (_REF, group),
            refusals=("NotHere", "NoStorage"),
            description="A file that is not here is refused: fetch it first.",
        ),
        Endpoint(
            "fetch_content",
            "POST",
            "/v1/content/{ref}/fetch",
            "Have a file fetched from any member that has it, and follow how far it has come",
            "the file in a line whenever more of it has come; in the last one its state is `here`, or `wrong`",
            {_NDJSON: OfferedFile},
            (_REF, group, _FOLLOW, _flag("pin", "1: it stays here when room is short")),
            refusals=("NotHere", "NoStorage"),
            description="An empty line is a sign of life. Who goes away loses nothing: the file is asked for still.",
        ),
        Endpoint(
            "pin_content",
            "POST",
            "/v1/content/{ref}/pin",
            "Have a file that is here stay when room is short, or not",
            "kept",
            {_JSON: PinnedFile},
            (_REF, group, _flag("pinned", "0: it may go; left out: it stays")),
            refusals=("NotHere", "NoStorage"),
        ),
        Endpoint(
            "delete_content",
            "DELETE",
            "/v1/content/{ref}",
            "Let go of a file here, or stop asking for it",
            "done",
            {_JSON: DeletedFile},
            (_REF, group, _flag("force", "1: also where nobody else is known to have it")),
            refusals=("NotHere", "NoStorage"),
        ),
    )
