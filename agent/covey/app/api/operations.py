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
        "description": "HTTP on the agent's Unix socket. Any process that can open the socket can read this "
        "device's inbox and send in its name; there is no other credential. An error is a JSON document with a stable "
        "code; see docs/how-to/programs.md.",
    },
    "servers": [{"url": "http://covey", "description": "any host name: the socket says which agent"}],
}

_VALUES = ("v", "vs", "vb", "vd")
_SENML_RECORD: Schema = {
    "type": "object",
    "description": "RFC 8428: a name, one value, perhaps a unit and a time; base fields apply to later records",
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
            "description": "one SenML record or pack per line",
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
        "schema": {"type": "string", "contentMediaType": "text/plain", "description": "line protocol"},
        "example": "weather,location=shed temp=21.5,raining=false 1790000000000000000\n",
    }
}


def _number(name: str, least: int, most: int, text: str) -> Parameter:
    return Parameter(name, {"type": "integer", "minimum": least, "maximum": most}, text)


_KEY = Parameter(
    "Idempotency-Key",
    {"type": "string", "minLength": 1, "maxLength": IDEMPOTENCY_KEY_LENGTH},
    f"unique key of this request: a retry with it queues nothing again. The latest {IDEMPOTENCY_KEYS:,} are kept",
    "header",
)

_GROUP = Parameter(
    "group",
    {"type": "string", "pattern": "^[0-9a-f]{0,64}$"},
    "start of the group's id; optional if there is only one group",
)
_EVENT_PLACE: Schema = {"type": "string", "pattern": f"^(0|{EVENT_ID.strip('^$')})$"}
_EVENT_TYPES = "|".join(EVENTS)

_SETTING_REPORT: Schema = {
    "type": "object",
    "required": ["key", "operation", "state"],
    "additionalProperties": False,
    "properties": {
        "key": {"type": "string", "pattern": "^app\\.", "maxLength": MAXIMUM_SETTING_KEY_BYTES},
        "operation": {
            "type": "string",
            "pattern": "^[0-9a-f]{64}$",
            "description": "operation id that was delivered with the setting",
        },
        "state": {"enum": ["applied", "refused"]},
        "value": {
            "description": "value now in use; a fraction is given as text",
            "anyOf": [
                {"type": "string", "maxLength": MAXIMUM_REPORTED_VALUE_BYTES // 4},
                {"type": "integer", "minimum": -MAXIMUM_COUNTER - 1, "maximum": MAXIMUM_COUNTER},
                {"type": ["boolean", "null"]},
            ],
        },
        "why": {"type": "string", "maxLength": MAXIMUM_SETTING_WHY_BYTES // 4, "description": "reason, for people"},
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
            "description": "null unsets it; lengths are bytes of UTF-8",
        },
        "group": {
            "type": ["string", "null"],
            "pattern": "^[0-9a-f]{0,64}$",
            "description": "only for one of the person's groups: start of its id",
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
        "Health, relays, waiting messages and members of this device",
        "the document of `covey status --json`",
        {_JSON: Status},
    ),
    Endpoint(
        "outbox",
        "GET",
        "/v1/outbox",
        "Waiting messages, the oldest of each recipient",
        "the document of `covey message list --json`",
        {_JSON: Outbox},
        (_number("limit", 0, MOST_SHOWN, "messages per recipient (default: none)"),),
    ),
    Endpoint(
        "metrics",
        "GET",
        "/v1/metrics",
        "Metrics of this device",
        "all metrics",
        {"application/openmetrics-text": {"type": "string"}, "text/plain": {"type": "string"}},
        (
            Parameter(
                "format",
                {"enum": [*FORMS], "default": "openmetrics"},
                "`prometheus` is the older text format, version 0.0.4",
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
        "At most 2 MiB. A time below 2**28 seconds counts from now (RFC 8428, section 4.5.3); a reading without a "
        "time gets the current time.",
    ),
    Endpoint(
        "write_lines",
        "POST",
        "/api/v2/write",
        "Queue readings in InfluxDB's line protocol durably, as Telegraf writes them",
        "queued",
        {},
        (
            Parameter("precision", {"enum": [*PRECISIONS], "default": "ns"}, "unit of the times"),
            Parameter("org", {"type": "string"}, "ignored"),
            Parameter("bucket", {"type": "string"}, "ignored"),
            _KEY,
        ),
        _LINES,
        ("NoLength", "NoStorage", "Encoded", "OtherRequest", "OutboxFull"),
        "At most 2 MiB, also after decompression of gzip. Valid lines are queued; a 400 names those refused. Without "
        "an idempotency key, repeated lines queue nothing again if every line has a time.",
        status=204,
    ),
    Endpoint(
        "send",
        "POST",
        "/v1/send",
        "Queue a blob durably for all other members of a group, or for one",
        "queued",
        {_JSON: QueuedBlob},
        (
            _GROUP,
            Parameter(
                "to",
                {"type": "string", "minLength": 1, "maxLength": 64},
                "only this member: label or start of its key",
            ),
            _number(
                "expires",
                0,
                _EXPIRES_S_MAX,
                "seconds of the agent's running time after which an undelivered blob is deleted; 0: never",
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
        "Hand all waiting messages to mailboxes now, e.g. before power-off",
        "recipients whose messages a mailbox or they themselves have stored, and those still open",
        {_JSON: HandedOver},
        (
            Parameter(
                "to",
                {"type": "string", "minLength": 1, "maxLength": 64},
                "only messages for this device: label or start of its key (default: all)",
            ),
            _number("wait", 0, HAND_OVER_S_MAX, "maximum seconds to wait until all of them are stored"),
        ),
        refusals=("NoStorage",),
        description="Messages stay queued here and are retried until their recipient acknowledges them: a mailbox is "
        "not trusted. Open ones are handed over as soon as a mailbox answers.",
    ),
    Endpoint(
        "send_ephemeral",
        "POST",
        "/v1/ephemeral",
        "Send a message to the members of a group that are online; it is not stored",
        "handed to the relay; online members receive it within about a second",
        {_JSON: SentEphemeral},
        (_GROUP,),
        {"application/octet-stream": {"schema": {"type": "string", "contentEncoding": "binary"}}},
        ("NoLength", "NotNow"),
        f"At most {MAXIMUM_EPHEMERAL_BYTES:,} bytes, {EPHEMERAL_PER_SECOND} a second, and {EPHEMERAL_SAVED} at once. "
        "It is never stored, retried or acknowledged. Members receive it as an event of type `ephemeral`.",
    ),
    Endpoint(
        "inbox",
        "GET",
        "/v1/inbox",
        "Received blobs, oldest first, then new ones",
        "one blob per line",
        {"application/x-ndjson": ArrivedBlob},
        (
            _number("after", 0, 2**62, "skip blobs up to this id"),
            _number(
                "in_order",
                0,
                1,
                "1: deliver a blob after all earlier ones of its sender arrived or were lost; ignores `after`",
            ),
            _number("follow", 0, _FOLLOW_S_MAX, "keep the connection open for this many seconds"),
        ),
        description="One JSON document per line; empty lines keep the connection alive. "
        "A blob is delivered again until it is deleted.",
    ),
    Endpoint(
        "delete_blob",
        "DELETE",
        "/v1/inbox/{id}",
        "Delete a blob that the client has stored",
        "the blob is gone, or did not exist",
        {_JSON: Deleted},
        (Parameter("id", {"type": "integer", "minimum": 0, "maximum": 10**18 - 1}, where="path"),),
        refusals=("NoStorage", "NotHere"),
    ),
    Endpoint(
        "history",
        "GET",
        "/v1/history",
        "The history of a group, in the same order on all devices, in pages",
        "the first entries, or those after the previous page",
        {_JSON: HistoryPage},
        (
            _GROUP,
            Parameter("type", {"enum": [kind.name.lower() for kind in OperationKind]}, "only entries of this kind"),
            Parameter(
                "author",
                {"type": "string", "maxLength": 64},
                "only entries of this member: label or start of its key",
            ),
            _number("since", 0, 2**62, "only entries since this time by the author's clock, in Unix microseconds"),
            _number("last", 0, 2**31, "only the last N entries; 0: all"),
            _number(
                "limit", 1, HISTORY_PAGE_ENTRIES, "entries per page; long entries make it shorter, and it may be empty"
            ),
            Parameter("after", {"type": "string", "pattern": HISTORY_CURSOR}, "`next` of the previous page, unchanged"),
        ),
        description="All pages show the entries present when the first one was read. `event` is where to resume "
        "the stream of events: the pages and the stream together contain each entry once.",
    ),
    Endpoint(
        "events",
        "GET",
        "/v1/events",
        "Server-sent events: operations, groups, settings, ephemeral messages",
        "events as they are committed",
        {},
        (
            Parameter(
                "Last-Event-ID",
                _EVENT_PLACE,
                "resume after this event, without loss or repetition; overrides `after`",
                "header",
            ),
            Parameter(
                "after", _EVENT_PLACE, "resume after this event; `0`: from the beginning (default: only new events)"
            ),
            Parameter(
                "types",
                {"type": "string", "pattern": f"^({_EVENT_TYPES})(,({_EVENT_TYPES}))*$"},
                "only these types, separated by commas",
            ),
            _GROUP,
            _number(
                "follow",
                0,
                _FOLLOW_S_MAX,
                "keep the connection open for this many seconds (default: a day); 0: only stored events",
            ),
        ),
        description="WHATWG HTML, section 9.2. An event without data marks the position in the stream and shows "
        "that the agent runs. A client that does not read is disconnected after half a minute and can resume. An event "
        "of type `missed` reports that this is not possible: then read everything again.",
        events=EVENTS,
    ),
    Endpoint(
        "settings",
        "GET",
        "/v1/settings",
        "Settings that operators set on this device",
        "one setting per line",
        {"application/x-ndjson": OrderedSettingDocument},
        (
            Parameter(
                "prefix",
                {"type": "string"},
                "only settings whose keys start with this, e.g. `app.` for those of programs",
            ),
        ),
        description="One JSON document per line. Changes are events of type `setting`.",
    ),
    Endpoint(
        "report_setting",
        "POST",
        "/v1/settings/report",
        "Report durably to operators how a program applied one of its settings (`app.…`)",
        "stored",
        {_JSON: ReportedSettingDocument},
        body={_JSON: {"schema": _SETTING_REPORT, "example": _SETTING_REPORT_EXAMPLE}},
        refusals=("NoLength", "NoStorage"),
    ),
    Endpoint(
        "own",
        "GET",
        "/v1/own",
        "The person's own devices, the groups that they joined, left or deleted, and preferences",
        "as far as this device knows them",
        {_JSON: Own},
        description="400 if this device is in no group of own devices. Changes are events of types "
        "`own_group` and `preference`, and for the devices themselves those of the personal group.",
    ),
    Endpoint(
        "set_preference",
        "POST",
        "/v1/own/preferences",
        "Set a preference on all devices of the person, durably",
        "stored",
        {_JSON: SetPreference},
        body={_JSON: {"schema": _PREFERENCE, "example": {"key": "theme", "value": "dark"}}},
        refusals=("NoLength", "NoStorage"),
    ),
    *content_operations(_GROUP),
)


def api_description() -> dict[str, Any]:
    """Return the description of the local API."""
    return description(OPERATIONS, _ABOUT, {"SenmlRecord": _SENML_RECORD})
