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
    "name (the newest file of that name), or start of its id or hash",
    "path",
)
_FOLLOW = Parameter(
    "follow",
    {"type": "integer", "minimum": 0, "maximum": _FOLLOW_S_MAX},
    "wait this many seconds (default: 600); the file stays requested after that",
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
            "Files that members of a group offer, newest first, with their local state",
            "one file per line",
            {_NDJSON: OfferedFile},
            (group, _flag("waiting", "1: only files that this device requested and does not have yet")),
        ),
        Endpoint(
            "put_content",
            "POST",
            "/v1/content",
            "Encrypt a file for the members of a group, and offer it to them",
            "offered; this device keeps its copy until you delete it",
            {_JSON: OfferedFile},
            (
                Parameter(
                    "name",
                    {"type": "string", "minLength": 1, "maxLength": MAXIMUM_FILE_NAME_BYTES},
                    "name without a path; required",
                ),
                group,
            ),
            {"application/octet-stream": _OCTETS},
            ("NoLength", "Encoded", "NoStorage"),
            f"At most {MAXIMUM_CONTENT_BYTES:,} bytes, streamed. One file at a time: a second request gets 503.",
        ),
    )


def _of_one(group: Parameter) -> tuple[Endpoint, ...]:
    return (
        Endpoint(
            "show_content",
            "GET",
            "/v1/content/{ref}",
            "A file, and the members that have it",
            "the document of `covey file show`",
            {_JSON: HeldFile},
            (_REF, group),
            refusals=("NotHere", "NoStorage"),
        ),
        Endpoint(
            "get_content",
            "GET",
            "/v1/content/{ref}/file",
            "The content of a local file",
            "its bytes",
            {"application/octet-stream": {"type": "string", "contentEncoding": "binary"}},
            (_REF, group),
            refusals=("NotHere", "NoStorage"),
            description="Fetch the file first.",
        ),
        Endpoint(
            "fetch_content",
            "POST",
            "/v1/content/{ref}/fetch",
            "Fetch a file from any member that has it, and follow the progress",
            "one line per step of progress; in the last one the state is `here` or `wrong`",
            {_NDJSON: OfferedFile},
            (_REF, group, _FOLLOW, _flag("pin", "1: keep it when space is short")),
            refusals=("NotHere", "NoStorage"),
            description="Empty lines keep the connection alive. The file stays requested if the client disconnects.",
        ),
        Endpoint(
            "pin_content",
            "POST",
            "/v1/content/{ref}/pin",
            "Pin or unpin a local file",
            "stored",
            {_JSON: PinnedFile},
            (_REF, group, _flag("pinned", "0: allow eviction (default: keep the file)")),
            refusals=("NotHere", "NoStorage"),
        ),
        Endpoint(
            "delete_content",
            "DELETE",
            "/v1/content/{ref}",
            "Delete this device's copy, or stop fetching it",
            "done",
            {_JSON: DeletedFile},
            (_REF, group, _flag("force", "1: even if no other member is known to have it")),
            refusals=("NotHere", "NoStorage"),
        ),
    )
