"""The operations of the local API: parameters and answers. The server and the API description use this table."""

from __future__ import annotations

from typing import Any

from covey.app.api.event_documents import EVENTS
from covey.app.checks.documents import Status
from covey.app.checks.metrics import FORMS
from covey.app.content.api_operations import content_operations
from covey.app.documents import Deleted
from covey.app.groups.documents import ArrivedBlob, Own, QueuedBlob, SentEphemeral, SetPreference
from covey.app.history.documents import EVENT_ID, HISTORY_CURSOR, HISTORY_PAGE_ENTRIES, HistoryPage
from covey.app.openapi import Endpoint, Parameter, Schema, description
from covey.app.orders.documents import OrderedSettingDocument, ReportedSettingDocument
from covey.app.relays.documents import HandedOver, Outbox
from covey.app.telemetry.documents import QueuedReadings
from covey.client_calls import HAND_OVER_S_MAX
from covey.core.history.kinds import OperationKind
from covey.core.telemetry.line_protocol import PRECISIONS
from covey.limits.ephemeral import EPHEMERAL_PER_SECOND, EPHEMERAL_SAVED, MAXIMUM_EPHEMERAL_BYTES
from covey.limits.message import MAXIMUM_COUNTER
from covey.limits.orders import MAXIMUM_SETTING_KEY_BYTES
from covey.limits.personal import MAXIMUM_PREFERENCE_KEY_BYTES, MAXIMUM_PREFERENCE_VALUE_BYTES
from covey.limits.settings import MAXIMUM_REPORTED_VALUE_BYTES, MAXIMUM_SETTING_WHY_BYTES
from covey.limits.storage import IDEMPOTENCY_KEY_LENGTH, IDEMPOTENCY_KEYS
from covey.limits.telemetry import MAXIMUM_BATCH_READINGS

MOST_SHOWN = 1_000
"""Messages of each recipient."""

_JSON = "application/json"
_FOLLOW_S_MAX = 86_400
_EXPIRES_S_MAX = 3_650 * 86_400

_ABOUT: Schema = {
    "info": {
        "title": "Covey local API",
        "version": "1",
        "description": "HTTP on the agent's Unix socket. Whoever may open the socket may read this device's inbox and "
        "send in its name; there is no other credential. An error is a JSON document with a stable code; see "
        "docs/how-to/programs.md.",
    },
    "servers": [{"url": "http://covey", "description": "any host name: the socket says which agent"}],
}

_VALUES = ("v", "vs", "vb", "vd")
_SENML_RECORD: Schema = {
    "type": "object",
    "description": "RFC 8428: a name, one value, perhaps a unit and a time; base fields hold for the records after",
    "required": ["n"],
    "properties": {
        "bn": {"type": "string"},
        "bt": {"type": "number"},
        "bu": {"type": "string"},
        "bv": {"type": "number"},
        "bver": {"type": "integer"},
        "n": {"type": "string", "description": "name"},
        "u": {"type": "string", "description": "unit"},
        "t": {"type": "number", "description": "seconds since 1970; below 2**28 from now"},
        "v": {"type": "number"},
        "vs": {"type": "string"},
        "vb": {"type": "boolean"},
        "vd": {"type": "string", "contentEncoding": "base64url"},
    },
    "oneOf": [{"required": [name]} for name in _VALUES],
}

_READINGS: dict[str, Schema] = {
    "application/x-ndjson": {
        "schema": {
            "type": "string",
            "contentMediaType": "application/x-ndjson",
            "description": "a SenML record or pack in each line",
        },
        "example": '{"n":"urn:dev:shed:t","u":"Cel","v":21.5}\n{"n":"urn:dev:shed:door","vb":true}\n',
    },
    "application/senml+json": {
        "schema": {"type": "array", "items": {"$ref": "#/components/schemas/SenmlRecord"}},
        "example": [{"bn": "urn:dev:shed:", "n": "t", "u": "Cel", "v": 21.5}, {"n": "door", "vb": True, "t": -5}],
    },
    "application/senml+cbor": {
        "schema": {
            "type": "string",
            "contentMediaType": "application/senml+cbor",
            "description": "one SenML pack (RFC 8428, section 6)",
        }
    },
}

_LINES: dict[str, Schema] = {
    "text/plain": {
        "schema": {"type": "string", "contentMediaType": "text/plain", "description": "lines of the protocol"},
        "example": "weather,location=shed temp=21.5,raining=false 1790000000000000000\n",
    }
}


def _number(name: str, least: int, most: int, text: str) -> Parameter:
    return Parameter(name, {"type": "integer", "minimum": least, "maximum": most}, text)


_KEY = Parameter(
    "Idempotency-Key",
    {"type": "string", "minLength": 1, "maxLength": IDEMPOTENCY_KEY_LENGTH},
    f"drawn for this request: tried again with it, it queues nothing more. The latest {IDEMPOTENCY_KEYS:,} are kept",
    "header",
)

_GROUP = Parameter(
    "group",
    {"type": "string", "pattern": "^[0-9a-f]{0,64}$"},
    "beginning of the group's id; may be left out where there is only one",
)
_EVENT_PLACE: Schema = {"type": "string", "pattern": f"^(0|{EVENT_ID.strip('^$')})$"}
_EVENT_TYPES = "|".join(EVENTS)

_SETTING_REPORT: Schema = {
    "type": "object",
    "required": ["key", "operation", "state"],
    "additionalProperties": False,
    "properties": {
        "key": {"type": "string", "pattern": "^app\\.", "maxLength": MAXIMUM_SETTING_KEY_BYTES},
        "operation": {"type": "string", "pattern": "^[0-9a-f]{64}$", "description": "as it came with the setting"},
        "state": {"enum": ["applied", "refused"]},
        "value": {
            "description": "what it now has; a fraction is told as its text",
            "anyOf": [
                {"type": "string", "maxLength": MAXIMUM_REPORTED_VALUE_BYTES // 4},
                {"type": "integer", "minimum": -MAXIMUM_COUNTER - 1, "maximum": MAXIMUM_COUNTER},
                {"type": ["boolean", "null"]},
            ],
        },
        "why": {"type": "string", "maxLength": MAXIMUM_SETTING_WHY_BYTES // 4, "description": "for people"},
    },
}
_SETTING_REPORT_EXAMPLE = {"key": "app.mode", "operation": "5f" * 32, "state": "applied", "value": "eco"}

_PREFERENCE: Schema = {
    "type": "object",
    "required": ["key", "value"],
    "additionalProperties": False,
    "properties": {
        "key": {"type": "string", "minLength": 1, "maxLength": MAXIMUM_PREFERENCE_KEY_BYTES},
        "value": {
            "type": ["string", "null"],
            "maxLength": MAXIMUM_PREFERENCE_VALUE_BYTES,
            "description": "null: none any more; lengths count bytes of UTF-8",
        },
        "group": {
            "type": ["string", "null"],
            "pattern": "^[0-9a-f]{0,64}$",
            "description": "for one of the person's groups alone: the beginning of its id",
        },
    },
}

OPERATIONS = (
    Endpoint(
        "description",
        "GET",
        "/openapi.json",
        "This description",
        "OpenAPI 3.1",
        {_JSON: {"type": "object"}},
        refusals=(),
    ),
    Endpoint(
        "status",
        "GET",
        "/v1/status",
        "Is it well, what waits, for whom, since when, who was heard",
        "as `covey status --json`",
        {_JSON: Status},
    ),
    Endpoint(
        "outbox",
        "GET",
        "/v1/outbox",
        "The messages that wait, the oldest of each recipient",
        "as `covey message ls --json`",
        {_JSON: Outbox},
        (_number("limit", 0, MOST_SHOWN, "messages of each recipient; none where it is left out"),),
    ),
    Endpoint(
        "metrics",
        "GET",
        "/v1/metrics",
        "The numbers, for a collector of metrics",
        "every metric of this device",
        {"application/openmetrics-text": {"type": "string"}, "text/plain": {"type": "string"}},
        (
            Parameter(
                "format",
                {"enum": [*FORMS], "default": "openmetrics"},
                "`prometheus` is its older text format, 0.0.4",
            ),
        ),
    ),
    Endpoint(
        "publish",
        "POST",
        "/v1/publish",
        "Queue readings for the collector, durably: all of them or none",
        "queued",
        {_JSON: QueuedReadings},
        (
            _number("batch", 1, MAXIMUM_BATCH_READINGS, "readings in one message (default: the agent's setting)"),
            _KEY,
        ),
        _READINGS,
        ("NoLength", "NoStorage", "OtherRequest", "OutboxFull"),
        "At most 2 MiB. A time below 2**28 seconds counts from now (RFC 8428, section 4.5.3); a reading without one "
        "is of now.",
    ),
    Endpoint(
        "write_lines",
        "POST",
        "/api/v2/write",
        "Queue readings in InfluxDB's line protocol, durably, as Telegraf and its like write them",
        "queued",
        {},
        (
            Parameter("precision", {"enum": [*PRECISIONS], "default": "ns"}, "the unit of the times"),
            Parameter("org", {"type": "string"}, "of no meaning here"),
            Parameter("bucket", {"type": "string"}, "of no meaning here"),
            _KEY,
        ),
        _LINES,
        ("NoLength", "NoStorage", "Encoded", "OtherRequest", "OutboxFull"),
        "At most 2 MiB, also where it is gzip. Lines that break a rule are refused, and named in a 400, once others "
        "are queued. Without a key the same lines once more queue nothing, where every line has a time.",
        status=204,
    ),
    Endpoint(
        "send",
        "POST",
        "/v1/send",
        "Queue a blob for every other member of a group, or for one, durably",
        "queued",
        {_JSON: QueuedBlob},
        (
            _GROUP,
            Parameter(
                "to",
                {"type": "string", "minLength": 1, "maxLength": 64},
                "one member alone: its label, or the beginning of its key",
            ),
            _number(
                "expires",
                0,
                _EXPIRES_S_MAX,
                "seconds of the agent's running time after which a blob that has not come is dropped; 0: never",
            ),
            _KEY,
        ),
        {"application/octet-stream": {"schema": {"type": "string", "contentEncoding": "binary"}}},
        ("NoLength", "NoStorage", "OtherRequest", "OutboxFull"),
    ),
    Endpoint(
        "hand_over",
        "POST",
        "/v1/hand-over",
        "Have what waits kept by mailboxes at once, so that this device may go away for good",
        "for whom a mailbox, or the recipient itself, has it durably, and for whom nobody has said so yet",
        {_JSON: HandedOver},
        (
            Parameter(
                "to",
                {"type": "string", "minLength": 1, "maxLength": 64},
                "what waits for one device: its label, or the beginning of its key; left out: for all",
            ),
            _number("wait", 0, HAND_OVER_S_MAX, "answer when all of it is kept, after so many seconds at most"),
        ),
        refusals=("NoStorage",),
        description="What is handed over stays queued here as well, and its retries go on, until its recipient has "
        "acknowledged it: a mailbox is not believed. What stays open is pushed as soon as a mailbox answers.",
    ),
    Endpoint(
        "send_ephemeral",
        "POST",
        "/v1/ephemeral",
        "Say something to the members of a group who are there now; nobody keeps it",
        "handed over to the relay; who is there hears it within a second or so",
        {_JSON: SentEphemeral},
        (_GROUP,),
        {"application/octet-stream": {"schema": {"type": "string", "contentEncoding": "binary"}}},
        ("NoLength", "NotNow"),
        f"At most {MAXIMUM_EPHEMERAL_BYTES:,} bytes, {EPHEMERAL_PER_SECOND} a second, and {EPHEMERAL_SAVED} at once. "
        "It is never stored, never sent again and never acknowledged. Members get it as an event of type `ephemeral`.",
    ),
    Endpoint(
        "inbox",
        "GET",
        "/v1/inbox",
        "The blobs that have arrived, oldest first, then those to come",
        "a blob in each line",
        {"application/x-ndjson": ArrivedBlob},
        (
            _number("after", 0, 2**62, "leave out blobs up to this id"),
            _number(
                "in_order",
                0,
                1,
                "1: a blob only when all that its sender sent before has come or is reported lost; after is not heeded",
            ),
            _number("follow", 0, _FOLLOW_S_MAX, "go on for so many seconds"),
        ),
        description="One JSON document a line. An empty line is a sign of life. "
        "A blob comes again until it is deleted.",
    ),
    Endpoint(
        "delete_blob",
        "DELETE",
        "/v1/inbox/{id}",
        "Forget a blob: the client has it, durably",
        "it is not there any more; perhaps it was not before",
        {_JSON: Deleted},
        (Parameter("id", {"type": "integer", "minimum": 0, "maximum": 10**18 - 1}, where="path"),),
        refusals=("NoStorage", "NotHere"),
    ),
    Endpoint(
        "history",
        "GET",
        "/v1/history",
        "What a group's members have said, in the order that holds everywhere, in windows",
        "the first entries that are wanted, or those after a page",
        {_JSON: HistoryPage},
        (
            _GROUP,
            Parameter("type", {"enum": [kind.name.lower() for kind in OperationKind]}, "only this kind"),
            Parameter(
                "author",
                {"type": "string", "maxLength": 64},
                "only this member's: label or key's beginning",
            ),
            _number("since", 0, 2**62, "only what was made since then by its author's clock, in Unix microseconds"),
            _number("last", 0, 2**31, "only the last so many; 0: all"),
            _number(
                "limit", 1, HISTORY_PAGE_ENTRIES, "entries of a page; long ones end it sooner, and it may be empty"
            ),
            Parameter("after", {"type": "string", "pattern": HISTORY_CURSOR}, "`next` of the page before, as it is"),
        ),
        description="All pages show what had arrived when the first one was read; `event` is where the stream of "
        "events goes on after that, so that both together are everything, each once.",
    ),
    Endpoint(
        "events",
        "GET",
        "/v1/events",
        "What happens, as server-sent events: operations, groups, settings, ephemeral messages",
        "events as they are committed",
        {},
        (
            Parameter(
                "Last-Event-ID",
                _EVENT_PLACE,
                "go on after this event, without loss or repetition; before `after`",
                "header",
            ),
            Parameter("after", _EVENT_PLACE, "go on after this event; `0`: from the beginning; left out: what comes"),
            Parameter(
                "types",
                {"type": "string", "pattern": f"^({_EVENT_TYPES})(,({_EVENT_TYPES}))*$"},
                "only these types, with commas between them",
            ),
            _GROUP,
            _number("follow", 0, _FOLLOW_S_MAX, "go on for so many seconds (default: a day); 0: only what there is"),
        ),
        description="WHATWG HTML, section 9.2. An event without data says how far the stream has come, and that the "
        "agent lives. Nothing is kept for who does not read: the stream is cut after half a minute, and resumes where "
        "it was. An event of type `missed` says that it cannot: read anew what you keep.",
        events=EVENTS,
    ),
    Endpoint(
        "settings",
        "GET",
        "/v1/settings",
        "The settings that operators gave this device",
        "a setting in each line",
        {"application/x-ndjson": OrderedSettingDocument},
        (
            Parameter(
                "prefix",
                {"type": "string"},
                "only settings whose keys begin so, as `app.` for those of programs",
            ),
        ),
        description="One JSON document a line. Changes are events of type `setting`.",
    ),
    Endpoint(
        "report_setting",
        "POST",
        "/v1/settings/report",
        "Say what a program has made of a setting of its own (`app.…`), durably: operators are told",
        "kept",
        {_JSON: ReportedSettingDocument},
        body={_JSON: {"schema": _SETTING_REPORT, "example": _SETTING_REPORT_EXAMPLE}},
        refusals=("NoLength", "NoStorage"),
    ),
    Endpoint(
        "own",
        "GET",
        "/v1/own",
        "The person's own devices, the groups that they are in, have left or erased, and preferences",
        "as the device that answers knows them",
        {_JSON: Own},
        description="400 where this device is in no group of its person's devices. Changes are events of types "
        "`own_group` and `preference`, and for the devices themselves those of the personal group.",
    ),
    Endpoint(
        "set_preference",
        "POST",
        "/v1/own/preferences",
        "Set how the person wants something, on all their devices, durably",
        "kept",
        {_JSON: SetPreference},
        body={_JSON: {"schema": _PREFERENCE, "example": {"key": "theme", "value": "dark"}}},
        refusals=("NoLength", "NoStorage"),
    ),
    *content_operations(_GROUP),
)


def api_description() -> dict[str, Any]:
    """Return the description of the local API."""
    return description(OPERATIONS, _ABOUT, {"SenmlRecord": _SENML_RECORD})
