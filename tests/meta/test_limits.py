"""Every bound has a reason beside it, and those that a second implementation must share stand in the protocol."""

from __future__ import annotations

import ast
import re
from importlib import import_module

import pytest

from covey.core.telemetry.batch import ClockKind, Kind
from covey.core.wire.message import LossReason, MessageType
from tests.meta.source_tree import ROOT, sources, within

_UNITS = {"KIB", "MIB", "GIB"}

_OUR_OWN = {
    "MAXIMUM_PUBLISH_BYTES": "this machine's memory",
    "MAXIMUM_SERIES_RULES": "this device's rules",
    "MAXIMUM_SERIES_RULE_BYTES": "this device's rules",
    "MAXIMUM_ALARM_SERIES": "this machine's memory",
    "ALARMS_NOTED": "this machine's disk",
    "ALARMS_PER_HOUR": "this device's rules",
    "ALERT_EPISODES": "this machine's alerts",
    "ALERT_MESSAGES": "this machine's alerts",
    "SILENCED_DEVICES": "this machine's alerts",
    "SILENCE_US_MAX": "this machine's alerts",
    "ALERT_PAUSE_US": "this machine's alerts",
    "ALERT_NAMED": "this machine's alerts",
    "ALERT_RETRY_US": "this machine's alerts",
    "ALERT_RETRY_MAXIMUM_US": "this machine's alerts",
    "ALERT_SEND_SECONDS": "this machine's alerts",
    "ACCOUNT_WAIT_US": "this device's rhythm",
    "CONNECT_EVERY_US_MIN": "this device's rhythm",
    "CONNECT_EVERY_US_MAX": "this device's rhythm",
    "AT_SPREAD_US": "this device's rhythm",
    "WINDOW_QUIET_US": "this device's rhythm",
    "WINDOW_ANSWER_US": "this device's rhythm",
    "WINDOW_US_MAX": "this device's rhythm",
    "GRANTED_BYTES": "this device's own count",
    "GRANTED_PART": "this device's own count",
    "NOTED_US": "this device's own count",
    "NOTED_BYTES": "this device's own count",
    "COST_REPORT_US": "this device's rhythm",
    "BUDGET_BYTES_A_DAY_MIN": "this device's own budget",
    "BUDGET_MARGIN_BYTES": "this device's own budget",
    "WINDOW_COST_BYTES": "this device's own budget",
    "BUDGET_GRANTED_BYTES": "this device's own budget",
    "BUDGET_GRANTED_PART": "this device's own budget",
    "DELIVERY_BYTES": "this device's own budget",
    "METERED_WINDOW": "this device's own budget",
    "SESSION_S": "what a device asks of its relays",
    "FIRST_PULL_BYTES": "this device's rhythm",
    "QUICK_PULL_US": "this device's rhythm",
    "SLOW_PULL_US": "this device's rhythm",
    "FETCHES_AT_ONCE": "this device's rhythm",
    "PARTS_AT_ONCE": "this device's rhythm",
    "SERVED_MEMBERS": "this machine's memory",
    "PARTS_PER_SECOND": "what this machine gives",
    "PARTS_SAVED": "what this machine gives",
    "MAXIMUM_HOLDERS": "this machine's disk",
    "CONTENT_FREE_BYTES": "this machine's disk",
    "HELD_BACK_US": "this device's rhythm",
    "PUSHES_PER_SECOND": "what this machine deals with",
    "PUSHES_SAVED": "what this machine deals with",
    "INBOX_PUSHES_PER_SECOND": "what this machine deals with",
    "INBOX_PUSHES_SAVED": "what this machine deals with",
    "ANSWERS_WAITING": "this machine's memory",
    "ANSWERS_OF_ONE": "this machine's memory",
    "WAKES_WAITING": "this machine's memory",
    "MAILBOXES_GREETED": "this device's rhythm",
    "SILENT_RETRIES": "a sender's patience",
    "PUSH_WINDOW": "this device's rhythm",
    "PUSH_WINDOW_BYTES": "this machine's memory",
    "REFUSED_US": "a sender's patience",
    "EXPIRED_BLOBS_AT_ONCE": "this device's rhythm",
    "MAILBOX_LOOK_US": "this device's rhythm",
    "DISK_WAIT_US": "this device's rhythm",
    "NEAR_SYNC_US": "this device's rhythm",
    "NEAR_DISK_WAIT_US": "this device's rhythm",
    "SYNC_SHARE": "this device's rhythm",
    "LAN_FOUND_US": "this device's rhythm",
    "GIVEN_CHUNKS": "this device's rhythm",
    "OFFER_WAIT_SECONDS": "a person's patience",
    "REFETCH_US": "this device's rhythm",
    "OFFERED_WITHIN_US": "this device's own files",
    "GRAPH_COUNT_US": "this device's rhythm",
    "AWAITED": "this machine's memory",
    "AWAITED_BYTES": "this device's disk",
    "REMEMBERED_LINES": "this machine's memory",
    "REMEMBERED_PASTS": "this machine's memory",
    "AWAITED_US": "this device's rhythm",
    "LAN_READ_BYTES": "this machine's memory",
    "LAN_CLIENTS": "this machine's memory",
    "PATCHED_BYTES": "this machine's memory",
    "PATCH_SHARE": "what this machine gives",
    "LAN_SILENCE_S": "this device's rhythm",
    "LAN_SECONDS": "what this machine gives",
    "LAN_PEERS": "this machine's memory",
    "MAXIMUM_TRIAL_SECONDS": "this device's own installers",
    "TRIAL_STARTS": "this device's own installers",
    "SLOT_FREE_BYTES": "this device's own installers",
    "ROLL_BACK_TRIES": "this device's own installers",
    "ROLL_BACK_REST_US": "this device's own installers",
    "CONFIRM_REST_US": "this device's own installers",
    "INSTALLER_FETCH_US": "this device's own installers",
    "MAXIMUM_GROUP_MOVES": "this device's own moves",
    "MOVE_REST_US": "this device's rhythm",
    "MOVED_LEAVES_US": "this device's patience",
    "RESULT_OF_FORMER_MEMBER_US": "this device's patience",
    "MOMENT_REST_US": "this device's own installers",
    "STAGING_REST_US": "this device's own installers",
    "MAXIMUM_UDP_BOARDS": "lines of one gateway",
    "BOARD_GONE_US": "this device's rules",
    "MAXIMUM_UDP_STRANGERS": "lines of one gateway",
    "PROBED_MEMBERS": "this device's own installers",
    "MAXIMUM_VERSION_CHARACTERS": "this device's own installers",
    "MAXIMUM_DOORS": "this machine's own doors",
    "DOOR_BATCH_MESSAGES": "this machine's own doors",
    "DOOR_BATCH_READINGS": "this machine's own doors",
    "DOOR_BATCH_SEGMENTS": "this machine's own doors",
    "DOOR_SURVEY_SECONDS": "this machine's own doors",
    "DOOR_SEND_SECONDS": "this machine's own doors",
    "DOOR_RETRY_SECONDS": "this machine's own doors",
    "DOOR_RETRY_MAXIMUM_SECONDS": "this machine's own doors",
    "DOOR_REFUSALS": "this machine's own doors",
    "DOOR_UNACKNOWLEDGED": "this machine's own doors",
    "DOOR_SERIES_OF_DEVICE": "this machine's own doors",
    "DOOR_SERIES": "this machine's own doors",
    "DOOR_PATIENCE_US": "this machine's own doors",
    "DOOR_LOSSES_KEPT": "this machine's own doors",
    "DOOR_STANDS_SECONDS": "this machine's own doors",
    "DOOR_HOURS": "this machine's own doors",
    "DOOR_HOURS_KEPT_US": "this machine's own doors",
    "DOOR_HOURS_PRUNED": "this machine's own doors",
    "DOOR_HOURS_PRUNED_EVERY_US": "this machine's own doors",
    "DOOR_HOUR_SETTLES_US": "this machine's own doors",
    "DOOR_IMPORT_HOURS": "this machine's own doors",
    "DOOR_IMPORT_SECONDS": "this machine's own doors",
    "DOOR_IMPORT_BYTES": "this machine's own doors",
    "DOOR_IMPORT_LOOKS": "this machine's own doors",
    "DOOR_IMPORT_LOOK_SECONDS": "this machine's own doors",
    "DOOR_IMPORT_INTERVAL_SECONDS": "this machine's own doors",
    "MAXIMUM_DOOR_SECRET_BYTES": "this machine's own doors",
    "MAXIMUM_SENSORS": "this machine's own sensors",
    "MAXIMUM_SENSOR_VALUES": "this machine's own sensors",
    "SENSOR_QUEUE_READINGS": "this machine's own sensors",
    "MAXIMUM_SENSOR_LINE_BYTES": "this machine's own sensors",
    "MAXIMUM_SENSOR_OUTPUT_BYTES": "this machine's own sensors",
    "MAXIMUM_SENSOR_SERIES": "this machine's own sensors",
    "MAXIMUM_SERIES_READINGS_PER_MINUTE": "this machine's own sensors",
    "SENSOR_SESSION_SECONDS": "this machine's own sensors",
    "SENSOR_HELD_MESSAGES": "this machine's own sensors",
    "SENSOR_URGENT_MESSAGES": "this machine's own sensors",
    "SENSOR_LOOK_SECONDS": "this machine's own sensors",
    "SENSOR_READ_SECONDS": "this machine's own sensors",
    "SENSOR_HUNG_SECONDS": "this machine's own sensors",
    "SENSOR_RETRY_SECONDS": "this machine's own sensors",
    "SENSOR_RETRY_MAXIMUM_SECONDS": "this machine's own sensors",
    "SENSOR_SETTLED_SECONDS": "this machine's own sensors",
    "SENSOR_NOTE_US": "this machine's own sensors",
    "SENSOR_LINE_US": "this machine's own sensors",
    "SENSOR_SILENT_SECONDS": "this machine's own sensors",
    "MAXIMUM_SENSOR_WHY_BYTES": "this machine's own sensors",
    "BOARD_ENVELOPES_WAITING": "this machine's memory",
    "OUTBOX_BYTES": "this machine's disk",
    "FREED_MEMORY_US": "this device's rhythm",
    "FREED_MEMORY_START_US": "this device's rhythm",
    "WRITES_LOOK_US": "this device's rhythm",
    "WRITES_NOTED_BYTES": "this device's rhythm",
    "SHARED_COMMIT_WAIT_US": "this device's rhythm",
    "SHARED_COMMIT_BYTES": "this device's rhythm",
    "INBOX_BYTES": "this machine's disk",
    "DELETED_AUTHORS": "the ingest's own plan",
    "UNSERVED_S_MAX": "the ingest's own patience",
    "MAXIMUM_DELETIONS_BYTES": "of the ingest's own tables",
    "MAXIMUM_LOG_ENTRY_BYTES": "of the ingest's own tables",
    "TABLES_LOOK_S": "of the ingest's own tables",
    "TABLES_LOOK_BYTES": "of the ingest's own tables",
    "INBOX_SHARE_BYTES": "this machine's disk",
    "LANDING_BYTES": "this machine's disk",
    "LANDING_SHARE_BYTES": "this machine's disk",
    "LANDED_SPANS_KEPT": "this machine's disk",
    "SHARE_SHOWN_US": "this device's rhythm",
    "SMALLEST_MESSAGE_BYTES": "this machine's disk",
    "SCARCE_PART": "this machine's disk",
    "SCARCE_LOOK_US": "this device's rhythm",
    "SCARCE_BYTES_PER_SECOND": "this machine's disk",
    "SCARCE_BYTES": "this machine's disk",
    "QUARANTINED_MESSAGES": "this machine's disk",
    "EVENTS_KEPT": "this machine's disk",
    "EVENT_MEMBERS": "this machine's disk",
    "IDEMPOTENCY_KEYS": "this machine's disk",
    "IDEMPOTENCY_KEY_LENGTH": "of the local API",
    "PUBLIC_REQUEST_US": "how long a joiner tries",
    "MAXIMUM_DECLINED_GROUPS": "this machine's disk",
    "WILL_DELAY_US": "a sender's choice; the relay keeps to it",
    "EPHEMERAL_KEPT": "this machine's memory",
    "PRESENCE_BLOCK": "this device's own counter",
    "PRESENCE_WRITE_US": "this machine's disk",
    "NEWS_TOKENS": "what this machine deals with",
    "WORTHLESS_TOKENS": "what this machine deals with",
    "THROTTLED_TOKENS": "what this machine deals with",
    "DEFECT_TOKENS": "what this machine deals with",
    "AUTHOR_TOKENS_PER_SECOND": "what this machine deals with",
    "AUTHOR_TOKENS": "what this machine deals with",
    "ALL_TOKENS_PER_SECOND": "what this machine deals with",
    "ALL_TOKENS": "what this machine deals with",
    "RATED_AUTHORS": "what this machine deals with",
    "DROPPED_LINES": "what this machine deals with",
    "DROPPED_LINE_US": "this machine's log",
    "OUTBOX_DROP_SHARE": "a sender's choice; its loss records name what went",
    "OUTBOX_ALARM_SHARE": "a sender's choice: how much of its own disk alarms may use",
    "BOARD_ALARMS_SAVED": "what this gateway gives its boards",
    "BOARD_ALARM_SECONDS": "what this gateway gives its boards",
    "BOARD_ALARM_SHARE": "what this gateway gives its boards",
    "THINNED_BYTES": "a sender's choice; its summaries name what they replace",
    "SUMMARY_WINDOWS": "a sender's choice, below MAXIMUM_SUMMARY_WINDOWS",
    "WINDOWS_US": "a sender's choice; a summary says its own",
    "LINKS_REMEMBERED": "this machine's memory",
    "IMPRINTS_REPEATED": "a receiver's choice; senders take any imprint",
    "ACKNOWLEDGED_RUNS_KEPT": "what this device remembers of its own",
    "ACKNOWLEDGED_MESSAGES_KEPT": "what this device remembers of its own",
    "ACKNOWLEDGED_BYTES_KEPT": "what this device remembers of its own",
    "REPLACE_INCARNATION_US": "this device's own incarnations",
    "LINK_AFTER_ENVELOPES": "a sender's choice; recipients take any LINK",
    "RESTED_RETRY_US": "a sender's patience; recipients take any resend",
    "LINK_DOUBLINGS": "a sender's choice; recipients take any LINK",
    "LOG_BYTES": "this machine's disk",
    "EXPIRED_AT_ONCE": "this device's rhythm",
    "EXPIRE_NEXT_US": "this device's rhythm",
    "RESERVED_BYTES": "this machine's disk",
    "HIGH_WATER_RECIPIENTS": "this machine's disk",
    "HIGH_WATER_AHEAD": "this machine's disk",
    "LOOKED_THROUGH_BYTES": "this machine's disk",
    "GROUPS_COPY_BYTES": "this machine's disk",
    "BROKER_DATA_BYTES": "this machine's broker",
    "REMOVED_ACCOUNT_US": "this machine's broker",
    "MANIFESTS_LOOKED_AT": "this machine's broker",
    "HANG_UP_WITHIN_US": "a sender's choice; its loss records name what went",
    "HANG_UPS": "a sender's choice; its loss records name what went",
    "REFUSED_SIZE_US": "a sender's choice; its loss records name what went",
    "REFUSED_SIZE_US_MAX": "a sender's choice; its loss records name what went",
    "SAME_SIZE_BYTES": "a sender's choice; its loss records name what went",
    "SUBSCRIBED_LEVELS": "this machine's broker",
    "SUBSCRIBED_LEVELS_DAILY": "this machine's broker",
    "SUBSCRIBED_SECONDS": "this machine's broker",
    "SUBSCRIPTION_ACCOUNTS": "this machine's broker",
    "SUSPECT_BYTES_MIN": "a sender's choice; its loss records name what went",
    "POISON_TRIES": "a sender's choice; its loss records name what went",
    "MESSAGE_OVERHEAD_BYTES": "an estimate for this machine's disk",
    "MAXIMUM_EARLY_MANIFESTS": "this machine's disk",
    "MAXIMUM_EARLY_BYTES": "this machine's disk",
    "SHOWN_POINTS": "what a person is shown",
    "FLEET_KEPT_DEVICES": "which fleets an agent keeps a table of",
    "MAXIMUM_LOOK_BYTES": "what a person is shown",
    "MAXIMUM_LOOK_MESSAGES": "what a person is shown",
    "MAXIMUM_SHOWN_SERIES": "what a person is shown",
    "MAXIMUM_SHOWN_CHARACTERS": "what a person is shown",
    "MAXIMUM_SHOWN_BOOTS": "what a person is shown",
    "MAXIMUM_SHOWN_LOSSES": "what a person is shown",
    "MAXIMUM_UNREADABLE_DEVICES": "what a person is shown",
    "MESSAGES_AHEAD": "this machine's disk",
    "OPEN_VOTES": "this machine's disk",
    "MESSAGES_AHEAD_OF_ONE": "this machine's disk",
    "REMEMBERED_ANNOUNCEMENTS": "this machine's memory",
    "REMEMBERED_MANIFESTS": "this machine's memory",
    "REMEMBERED_MANIFEST_BYTES": "this machine's memory",
    "STEPS_AT_ONCE": "this device's rhythm",
    "RECONCILE_ISSUER_US": "this device's rhythm",
    "RECONCILE_ANYBODY_US": "this device's rhythm",
    "PULL_US": "this device's rhythm",
    "PULL_US_MAX": "this device's rhythm",
    "PULLS_ANSWERED": "this device's rhythm",
    "HEADS_DELAY_US": "this device's rhythm",
    "HEADS_US": "this device's rhythm",
    "NEWS_US": "this device's rhythm",
    "GIVEN_AFTER": "this device's rhythm",
    "HEADS_US_MAX": "this device's rhythm",
    "HEADS_ROUND_US": "this device's rhythm",
    "HEADS_ROUNDS": "this device's rhythm",
    "HEADS_CALM_US": "this device's rhythm",
    "HEADS_START_US": "this device's rhythm",
    "KEEPALIVE_S": "this device's rhythm",
    "LINK_NOTES_UNANSWERED": "this device's rhythm",
    "RENEWED_S": "this device's rhythm",
    "RESUBSCRIBE_US": "this device's rhythm",
    "HEADS_CHANGE_US": "this device's rhythm",
    "QUICK_ROUNDS": "this device's rhythm",
    "HEADS_PER_SECOND": "this device's rhythm",
    "HEADS_SAVED": "this device's rhythm",
    "FORMER_LOOK_SECONDS": "this device's rhythm",
    "FORMER_LOOKS_SAVED": "this device's rhythm",
    "FORMER_LOOK_BYTES": "this device's rhythm",
    "REMOVAL_MANIFESTS": "this device's rhythm",
    "LEFT_LOOKED_BACK": "this device's rhythm",
    "PULLS_PER_SECOND": "this device's rhythm",
    "PULLS_SAVED": "this device's rhythm",
    "PACED": "this machine's memory",
    "ARGON2_PASSES": "this device's choice",
    "ARGON2_PASSES_MIN": "this device's own key file",
    "ARGON2_PASSES_MAX": "this device's own key file",
    "ARGON2_MEMORY_KIB": "this device's choice",
    "ARGON2_MEMORY_KIB_MIN": "this device's own key file",
    "ARGON2_MEMORY_KIB_MAX": "this device's own key file",
    "MAXIMUM_PASSPHRASE_BYTES": "this device's choice",
    "MAXIMUM_RECOVERY_BYTES": "the owner's own recovery file",
    "MAXIMUM_HUB_OPERATORS": "the owner's own recovery file",
    "MAXIMUM_RECOVERED_FILES": "the owner's own recovery file",
    "MAXIMUM_RECOVERED_FILE_BYTES": "the owner's own recovery file",
    "MAXIMUM_RECOVERED_OPERATORS": "the owner's own recovery file",
    "MAXIMUM_RECOVERED_REPLACEMENTS": "the owner's own recovery file",
    "RELAY_SEARCH_US": "this device's choice",
    "RELAY_SEARCH_PLACES": "this device's choice",
    "RELAY_SEARCH_AUTHORITIES": "this device's choice",
    "FORMER_RELAY_NAMES": "of this device's own relay",
    "MAXIMUM_OPEN_INVITES": "this device's choice",
    "RENDEZVOUS_WAITING": "this machine's memory",
    "INCARNATIONS": "this machine's disk",
    "RETIRED_NOISE_KEYS": "this device's own keys",
    "RETIRED_NOISE_KEY_US_MIN": "this device's own keys",
    "RETIRED_NOISE_KEY_US_MAX": "this device's own keys",
    "ROTATION_PACE_US": "this device's own keys",
    "DEPARTURE_US": "this machine's disk; the device is told by others, or has no use for it",
    "VOID_DEVICES": "this machine's disk",
    "JOIN_GRACE_US": "a joiner's patience",
    "JOIN_MEMORY_US": "a joiner's patience",
    "MAXIMUM_PREPARED_INVITES": "this device's choice",
    "PREPARED_INVITE_US": "an inviter's choice; the expiry stands in the invite",
    "MAINTENANCE_US": "this device's rhythm",
    "ANNOUNCE_MEMBERS": "this device's rhythm",
    "ANNOUNCE_US": "this device's rhythm",
    "ANNOUNCE_PAUSE_US": "this device's rhythm",
    "SEGMENT_BYTES": "a collector's rhythm; readers take any up to the maximum",
    "SEGMENT_US": "a collector's rhythm",
    "PUBLISH_BATCHES": "a publisher's rhythm",
    "VAULT_RANGE_SEGMENTS": "a collector's rhythm",
    "MAXIMUM_INVENTORY_BYTES": "this machine's disk; a longer list is not kept",
    "MAXIMUM_INVENTORY_TEXT_BYTES": "this machine's memory; a longer list is not kept",
    "PACKAGES_LOOK_US": "this device's rhythm",
    "PACKAGES_REPEATED_US": "this device's rhythm",
    "VAULT_LOOK_US": "a collector's rhythm",
    "VAULT_LOOK_BYTES": "a collector's rhythm",
    "VAULT_LOOK_FILE_BYTES": "a collector's rhythm",
    "VAULT_NEWEST_BYTES": "a collector's rhythm",
    "VAULT_NEWEST_LOOKS": "a collector's rhythm",
    "MAXIMUM_DAMAGED_RANGES": "this machine's own note",
    "MANIFEST_KEPT_EACH": "a collector's own copy",
    "RESTORED_POSITIONS": "a collector's guess; readers take any",
    "COLLECTOR_SILENT_US": "a sender's patience",
    "COLLECTOR_CHECK_US": "this device's rhythm",
    "REDIRECTED_AT_ONCE": "this device's rhythm",
    "MAXIMUM_ALLOWED_SETTINGS": "this device's own list",
    "MAXIMUM_ORDERED_BYTES": "this device's own file",
    "SETTING_TRIES": "this device's patience",
    "RELAY_TRIAL_US": "this device's patience",
    "SETTINGS_RESTART_US": "this device's rhythm",
    "RESULTS_OF_ONE": "this machine's disk",
    "RESULT_OUTPUT_BYTES_OF_ONE": "this machine's disk",
    "RESULT_OUTPUT_BYTES": "this machine's disk",
    "MAXIMUM_ACTIONS": "this device's own configuration",
    "MAXIMUM_DEFINITION_BYTES": "this device's own file",
    "MAXIMUM_CONFIGURATION_BYTES": "this device's own file",
    "MAXIMUM_UNIT_RIGHTS": "this device's own file",
    "MAXIMUM_ACTION_TASKS": "this device's own programs",
    "MAXIMUM_ACTION_WORDS": "this device's own file",
    "MAXIMUM_ACTION_SUMMARY_BYTES": "this device's own file",
    "MAXIMUM_ARGUMENT_CHOICES": "this device's own file",
    "MAXIMUM_ACTION_FILE_BYTES": "this device's own programs",
    "MAXIMUM_ACTION_SECONDS": "this device's own file",
    "MAXIMUM_ACTION_MIB": "this device's own file",
    "MAXIMUM_ACTION_INPUT_BYTES": "this device's own file",
    "ACTION_READ_BYTES": "this device's own rhythm",
    "WAITING_COMMANDS": "this device's own queue",
    "LOST_COMMANDS": "this device's own reports",
    "RESULTS_RESENT": "this device's own reports",
    "ACTION_TRIES": "this device's patience",
    "CLOCK_SETTLES_US": "this device's patience",
}
"""Limits that no peer needs to know, and why."""


_SUBJECTS = sources("agent/covey/limits")
_VALUES = {name: value for source in _SUBJECTS for name, value in vars(import_module(source.module)).items()}


def _assignments() -> list[tuple[str, ast.stmt | None]]:
    """Return (name, the statement after it) for every limit."""
    found: list[tuple[str, ast.stmt | None]] = []
    for source in _SUBJECTS:
        body = source.tree.body
        for place, node in enumerate(body):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                found.append((node.targets[0].id, body[place + 1] if place + 1 < len(body) else None))
    return found


_NAMES = [name for name, _ in _assignments() if name not in _UNITS]


def _section(heading: str) -> str:
    text = "".join(f"{each.read_text(encoding='utf-8')}\n## " for each in (ROOT / "docs/protocol").glob("*.md"))
    text = text[text.index(f"\n{heading}") + 1 :]
    return text[: text.index("\n## ")]


def _table() -> dict[str, int]:
    """Return the limits that docs/protocol/limits.md lists."""
    section = _section("## 15.")
    rows = re.findall(r"^\| `([A-Z_]+)` \| ([\d,]+|2\^63 - 1) \|", section, re.MULTILINE)
    return {name: 2**63 - 1 if "^" in value else int(value.replace(",", "")) for name, value in rows}


@pytest.mark.parametrize(("name", "after"), _assignments())
def test_a_limit_has_a_reason(name: str, after: ast.stmt | None) -> None:
    if name in _UNITS:
        return
    assert isinstance(after, ast.Expr), f"{name} has no reason under it"
    assert isinstance(after.value, ast.Constant)
    reason = after.value.value
    assert isinstance(reason, str)
    assert len(reason) >= 25
    assert reason.endswith(".")


def test_shared_limits_stand_in_the_protocol_with_the_same_value() -> None:
    expected = {name: _VALUES[name] for name in _NAMES if name not in _OUR_OWN}
    assert _table() == expected


def test_no_limit_is_excused_that_does_not_exist() -> None:
    assert set(_OUR_OWN) <= set(_NAMES)


def test_every_limit_bounds_something() -> None:
    text = "".join(
        source.path.read_text(encoding="utf-8")
        for source in sources("agent", "spark_ingest", "broker_conf", "firmware_bridge")
        if not within(source.module, "covey.limits")
    )
    assert set(_NAMES) <= set(re.findall(r"\b[A-Z_0-9]+\b", text))


def test_no_other_module_of_the_core_invents_a_limit() -> None:
    named = {
        node.targets[0].id
        for source in sources("agent/covey/core")
        if not within(source.module, "covey.limits")
        for node in source.tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    assert {name for name in named if "MAXIMUM" in name} <= {"MAXIMUM_SCALE"}  # of the encoding, like a width


@pytest.mark.parametrize("kind", [MessageType, LossReason, ClockKind, Kind])
def test_numbers_of_the_protocol_are_the_codes(kind: type[MessageType]) -> None:
    """Tables in the document list `name` and number of every enumeration that travels."""
    headings = {"MessageType": "## 5.", "LossReason": "## 7.", "ClockKind": "## 12.", "Kind": "## 11."}
    section = _section(headings[kind.__name__])
    rows = dict(re.findall(r"^\| `?([A-Z_]+)`? \| (0x[0-9a-f]{2}|\d+) \|", section, re.MULTILINE))
    assert {name: int(number, 0) for name, number in rows.items()} == {each.name: int(each) for each in kind}
