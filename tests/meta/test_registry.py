"""The registry page lists every number, code and name of the protocol that the code has, and no others."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from enum import IntEnum
from functools import cache

import pytest

from covey import errors
from covey.adapters.lan import discovery
from covey.adapters.mqtt.settings import parse_url
from covey.app.conformance.checks import ROLES
from covey.core.actions import results
from covey.core.actions.results import CommandState
from covey.core.checkpoints import checkpoints
from covey.core.group.features import Feature
from covey.core.group.manifest import RULES, Mode, Role
from covey.core.group.policy import Action
from covey.core.group.rules import JUDGING
from covey.core.history import orders
from covey.core.history.kinds import KINDS, OperationKind
from covey.core.history.personal import Holding
from covey.core.history.releases import ReleaseState
from covey.core.mailbox.messages import Hook, Number
from covey.core.orders import attempts
from covey.core.orders.selector import SelectorKind
from covey.core.pairing import invite
from covey.core.pairing import messages as pairing
from covey.core.pairing.ceremony import Ending
from covey.core.pairing.uri import GROUP_URI_PREFIX
from covey.core.presence.status import COST_KEY, State
from covey.core.settings.states import SettingState
from covey.core.telemetry.batch import ALARM_KEY, ROWS_KEY, ClockKind, Kind
from covey.core.telemetry.summaries import DEFLATE, RAW
from covey.core.wire import announcement, cbor, envelope, message, topics
from covey.core.wire.history_file import PartKind
from covey.core.wire.message import LossReason, MessageType
from covey_boards import updates
from covey_boards.device import updating
from covey_boards.shared import line_orders
from covey_boards.shared import messages as line
from tests.meta.source_tree import ROOT, sources

PAGE = (ROOT / "docs/protocol/registry.md").read_text(encoding="utf-8")


def _rows(title: str) -> list[list[str]]:
    """Return the cells of the table under a heading, without its head."""
    section = PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    lines = [each for each in section.splitlines() if each.startswith("| ")]
    return [[cell.strip().strip("`") for cell in each.strip("|").split(" |")] for each in lines[1:]]


def _numbers(title: str) -> dict[str, int]:
    return {row[0]: int(row[1], 0) for row in _rows(title)}


@pytest.mark.parametrize(
    ("title", "known"),
    [
        ("Message types", MessageType),
        ("Kinds of operations", OperationKind),
        ("Features", Feature),
        ("Loss reasons", LossReason),
        ("Modes of groups", Mode),
        ("Roles", Role),
        ("Actions of votes", Action),
        ("Passwords of ceremonies", pairing.Password),
        ("Reasons of ceremonies", pairing.Reason),
        ("Partings", pairing.Parting),
        ("Clocks", ClockKind),
        ("Kinds of values", Kind),
        ("States of presence", State),
        ("Parts of a history file", PartKind),
        ("Selectors", SelectorKind),
        ("States of settings", SettingState),
        ("States of commands", CommandState),
        ("States of releases", ReleaseState),
        ("Holdings of a person's groups", Holding),
        ("Mailbox messages", Number),
        ("Wake hooks", Hook),
    ],
)
def test_an_enumeration_is_listed(title: str, known: type[IntEnum]) -> None:
    assert _numbers(title) == {each.name: int(each) for each in known}


def test_every_kind_of_operations_has_traits() -> None:
    assert set(KINDS) == set(OperationKind)


def test_the_registry_lists_which_types_are_sequenced() -> None:
    said = {row[0]: row[2] for row in _rows("Message types")}
    known = {each.name: "no" if each in message._UNSEQUENCED else "yes" for each in MessageType}
    assert said == known | {each.name: "either" for each in message._EITHER}


def test_forms_keys_and_judging_rules_are_listed() -> None:
    assert _numbers("Forms of envelopes") == {"SEALED": envelope.SEALED, "LINKED": envelope.LINKED}
    keys = {
        "SUITE": cbor.SUITE,
        "RULES": RULES,
        "FEATURES": announcement.FEATURES,
        "KNOWN_RULES": announcement.KNOWN_RULES,
        "ONCE": orders._ONCE,
        "WAVE": orders._WAVE,
        "UNSUPPORTED": message._UNSUPPORTED,
        "ALARM": ALARM_KEY,
        "ROWS": ROWS_KEY,
        "COST": COST_KEY,
    }
    assert {row[2]: int(row[1]) for row in _rows("Keys of extension maps")} == keys
    assert [int(row[0]) for row in _rows("Judging rules")] == sorted(JUDGING)


def test_messages_of_ceremonies_and_of_the_line_are_listed() -> None:
    assert _numbers("Rendezvous messages") == {
        kind.__name__.upper(): int(n) for n, (kind, _) in pairing._SHAPES.items()
    }
    known = [*line._LINE_SHAPES, *line_orders._SHAPES]
    listed = _numbers("Messages of the line")
    assert sorted(listed.values()) == sorted(known)
    assert all(
        number in (getattr(line, name, None), getattr(line_orders, name, None)) for name, number in listed.items()
    )


def test_failure_codes_are_listed() -> None:
    def codes(error: type[errors.CoveyError]) -> Iterator[str]:
        for each in error.__subclasses__():
            yield each.code
            yield from codes(each)

    assert {row[0] for row in _rows("Failure codes")} == {
        *codes(errors.RemoteError),
        errors.LocalError.code,
        errors.ReadingError.code,
        errors.ConfigurationError.code,
    }


def test_codes_of_orders_are_listed() -> None:
    listed = {row[0] for row in _rows("Codes of orders")}
    of_commands = {each for each in vars(results).values() if isinstance(each, str) and each.startswith("action_")}
    assert {each for each in listed if each.startswith("action_")} == of_commands
    said = {text for text in _texts() if text.startswith("setting_")}
    assert {each for each in listed if each.startswith("setting_")} <= said


def test_codes_that_people_read_are_listed() -> None:
    assert {row[0] for row in _rows("Codes of attempts")} == {attempts.NO_OPERATOR, attempts.REMOVED, attempts.TOO_FEW}
    words = {each for each in vars(checkpoints).values() if isinstance(each, str) and each.startswith("checkpoint_")}
    assert {row[0] for row in _rows("Codes of checkpoints")} == words
    assert {row[0] for row in _rows("Endings of ceremonies")} == {each.value for each in Ending}


def test_codecs_and_states_of_a_firmware_are_listed() -> None:
    assert _numbers("Codecs of summaries") == {"RAW": RAW, "DEFLATE": DEFLATE}
    for runtime in (updates, updating):
        listed = _numbers("States of a board's firmware")
        assert listed == {name: getattr(runtime, name) for name in listed}


def test_each_row_names_a_section_that_has_the_name() -> None:
    sections = {number: text.casefold() for number, text in _sections().items()}
    tables = re.findall(r"^## (.+)\n(?:(?!## ).*\n)*?\|.* section \|$", PAGE, re.MULTILINE)
    assert len(tables) == 6
    rows = [(title, row) for title in tables for row in _rows(title)]
    assert [row for title, row in rows if _probe(title, row) not in sections.get(int(row[-1]), "")] == []


def _probe(title: str, row: list[str]) -> str:
    """Return what the section of a row must contain: the name, as texts spell it, or of a place its beginning."""
    if title == "Places":
        return re.split(r"[<`]|\.local", row[1])[0].casefold()
    name = re.split("[<`]", row[0])[0].casefold()
    return name.removeprefix("own_").replace("_", " ") if title == "Kinds of operations" else name


def test_each_link_of_a_table_leads_to_a_section() -> None:
    links = re.findall(r"\[section (\d+)\]\((\w+\.md)?#([\w-]+)\)", PAGE)
    sections = _sections()
    assert len(links) > 20
    assert [each for each in links if int(each[0]) not in sections and each[0] != "16"] == []
    assert [each for each in links if each[0] != "16" and not each[2].startswith(f"{each[0]}-")] == []


def test_roles_are_of_listed_message_types_and_sections() -> None:
    index = (ROOT / "docs/protocol/index.md").read_text(encoding="utf-8")
    table = index.partition("## Roles")[2]
    named = set(re.findall(r"`([A-Z][A-Z_]+)`", table))
    assert named == {each.name for each in MessageType}
    rows = [each.strip("|").split("|") for each in table.splitlines() if each.startswith("| ")][1:]
    spans = [re.findall(r"(?<!rules )\b(\d+)(?: to (\d+))?", re.sub(r"\(.*?\)", "", row[2])) for row in rows]
    known = _sections()
    for first, last in (span for row in spans for span in row):
        assert {*range(int(first), int(last or first) + 1)} <= {*known}, (first, last)
    assert {*ROLES} <= {row[0].strip() for row in rows}
    assert all(f"--role {role}`" in table for role in ROLES)


def _sections() -> dict[int, str]:
    """Return the text of each numbered section of the protocol."""
    found: dict[int, str] = {}
    for page in (ROOT / "docs/protocol").glob("*.md"):
        parts = re.split(r"^## (?:(\d+)\. )?", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
        for number, text in zip(parts[1::2], parts[2::2], strict=True):
            if number:
                found[int(number)] = text
    return found


def test_domains_personalisations_and_contexts_are_listed() -> None:
    titles = (
        "Domains of signatures",
        "Personalisations of hashes",
        "Contexts of encryption, and beginnings of files",
        "What each device uses for itself",
    )
    listed = [row[0] for title in titles for row in _rows(title)]
    assert set(listed) == {text.rstrip("\0") for text in _texts() if text.startswith("covey/1 ") and len(text) > 8}
    assert all(len(row[0]) <= 16 for row in _rows("Personalisations of hashes")), "a personalisation has 16 bytes"
    for title in titles:
        assert [row[0] for row in _rows(title)] == list(dict.fromkeys(row[0] for row in _rows(title))), "twice"


def test_places_are_listed() -> None:
    places = {row[0]: row[1] for row in _rows("Places")}
    assert places["topic of an inbox"].startswith(topics._PREFIX)
    assert places["topic of a rendezvous"].startswith(topics._RENDEZVOUS)
    assert places["topic by which a mailbox wakes a device"].startswith(topics._WAKE)
    assert places["service on a local network (DNS-SD)"] == discovery._SERVICE
    assert places["scheme of an invite"] == invite._PREFIX
    assert places["scheme of a public group"] == GROUP_URI_PREFIX
    for scheme in ("mqtt://", "mqtts://"):
        assert int(places[f"port of a relay, `{scheme}"]) == parse_url(f"{scheme}relay.example")[1]


def test_each_form_of_envelopes_is_of_a_listed_suite() -> None:
    suites = [int(row[0]) for row in _rows("Suites")]
    assert suites == sorted(set(suites))
    assert {int(row[2]) for row in _rows("Forms of envelopes")} <= set(suites)


@cache
def _texts() -> set[str]:
    """Return every text and byte string of the product that fits a line."""
    found: set[str] = set()
    for source in sources("agent", "firmware_bridge", "spark_ingest"):
        for node in source.nodes:
            if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes) and len(node.value) < 40:
                found.add(node.value if isinstance(node.value, str) else node.value.decode("latin-1"))
    return found
