"""`covey conformance` names what mailboxes, gateways and boards do wrong."""

from __future__ import annotations

import pytest

from tests.integration.conformance_runs import name_mistakes

_ADDING = "adding another member"
_GREETING = "greeting the mailbox"
_PUSHING = "pushing and pulling blobs"
_MEETING = "meeting the gateway on its line"
_LETTING_IN = "letting the board into the group"
_MEETING_BOARD = "meeting the board on its line"
_ORDERING_BOARD = "ordering something of the board"
_SLEEPING = "letting the board sleep"
_ASKING = "asking the mailbox for what it must refuse"


@pytest.mark.processes
@pytest.mark.parametrize(
    ("role", "breaks", "steps", "expected"),
    [
        (
            "mailbox",
            ("keeps-deleted-blobs", "reports-who-pulled", "keeps-for-strangers", "lets-one-sender-fill-it"),
            (_ADDING, _GREETING, _PUSHING, "deleting blobs", _ASKING, "filling the mailbox"),
            {
                "deletes": "it handed out a blob again that its recipient had deleted",
                "discreet": "it sent Notify to the sender when the recipient asked",
                "refuses": "it sent no ERROR about a blob for a device that is not in the group",
                "shares": "and then had no room for the first one of another member",
            },
        ),
        (
            "mailbox",
            ("deletes-what-was-pulled", "forgets-blobs-at-start"),
            (_ADDING, _GREETING, _PUSHING, "killing the mailbox after an acknowledgement"),
            {
                "keeps": "it handed out two blobs, and has only 0 of them when it is asked again",
                "durable": "after SIGKILL it lacks a blob that it had acknowledged",
            },
        ),
        (
            "mailbox",
            ("shows-every-inbox",),
            (_ADDING, _GREETING, _PUSHING, "touching another device's inbox"),
            {"own-inbox": "it handed out blobs of another device's inbox"},
        ),
        (
            "gateway",
            ("carries-each-counter-once", "wakes-boards", "believes-any-proof"),
            (_ADDING, _MEETING, _LETTING_IN, _SLEEPING, "restarting the board"),
            {
                "repeats": "it did not forward a link envelope with counter 1",
                "sleepers": "it handed something down to a board that slept",
                "proof": "it answered an IDENTIFY whose proof another key signed",
            },
        ),
        (
            "gateway",
            ("ignores-what-the-board-takes",),
            (_ADDING, _MEETING, _LETTING_IN, "sending envelopes for the board"),
            {
                "line-bounds": "fragments ahead of a window of 2",
                "board-bounds": "the board takes messages of 1024",
            },
        ),
        (
            "gateway",
            ("acknowledges-frames-early",),
            (_ADDING, _MEETING, _LETTING_IN, "killing the gateway after an acknowledgement on the line"),
            {"commits": "it had acknowledged an envelope on the line, and lost it by SIGKILL"},
        ),
        (
            "board",
            ("follows-every-gateway", "obeys-anybody"),
            (_MEETING_BOARD, "enrolling the board", _ORDERING_BOARD),
            {
                "operators": "it obeyed the order of a member that its enrolment did not name as an operator",
                "one-collector": "it followed a second ENROL to another collector",
            },
        ),
        (
            "board",
            ("frees-on-any-acknowledgement", "keeps-its-incarnation"),
            (_MEETING_BOARD, "enrolling the board", "acknowledging falsely", "killing the board"),
            {
                "resends": "it freed it on the line's acknowledgement, or on a false one",
                "one-message": "it sent two different messages as link-seq",
            },
        ),
        (
            "board",
            ("proves-nothing",),
            (_MEETING_BOARD,),
            {"identifies": "the proof in its IDENTIFY does not verify"},
        ),
    ],
)
def test_each_mistake_is_named(
    monkeypatch: pytest.MonkeyPatch,
    role: str,
    breaks: tuple[str, ...],
    steps: tuple[str, ...],
    expected: dict[str, str],
) -> None:
    name_mistakes(monkeypatch, role, breaks, steps, expected)
