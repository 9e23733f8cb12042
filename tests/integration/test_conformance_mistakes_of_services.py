"""`covey conformance` names what mailboxes, gateways and boards do wrong."""

from __future__ import annotations

import pytest

from tests.integration.conformance_runs import name_mistakes


@pytest.mark.proof
@pytest.mark.parametrize(
    ("role", "breaks", "expected"),
    [
        (
            "mailbox",
            ("keeps-deleted-blobs", "reports-who-pulled", "keeps-for-strangers", "lets-one-sender-fill-it"),
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
            {
                "keeps": "it handed out two blobs, and has only 0 of them when it is asked again",
                "durable": "after SIGKILL it lacks a blob that it had acknowledged",
            },
        ),
        (
            "mailbox",
            ("shows-every-inbox",),
            {"own-inbox": "it handed out blobs of another device's inbox"},
        ),
        (
            "gateway",
            ("carries-each-counter-once", "wakes-boards", "believes-any-proof"),
            {
                "repeats": "it did not forward a link envelope with counter 1",
                "sleepers": "it handed something down to a board that slept",
                "proof": "it answered an IDENTIFY whose proof another key signed",
            },
        ),
        (
            "gateway",
            ("ignores-what-the-board-takes",),
            {
                "line-bounds": "fragments ahead of a window of 2",
                "board-bounds": "the board takes messages of 1024",
            },
        ),
        (
            "gateway",
            ("acknowledges-frames-early",),
            {"commits": "it had acknowledged an envelope on the line, and lost it by SIGKILL"},
        ),
        (
            "board",
            ("follows-every-gateway", "obeys-anybody"),
            {
                "operators": "it obeyed the order of a member that its enrolment did not name as an operator",
                "one-collector": "it followed a second ENROL to another collector",
            },
        ),
        (
            "board",
            ("frees-on-any-acknowledgement", "keeps-its-incarnation"),
            {
                "resends": "it freed it on the line's acknowledgement, or on a false one",
                "durable": "it sent no batch of a new incarnation after SIGKILL",
                "one-message": "it sent two different messages as link-seq",
            },
        ),
        (
            "board",
            ("proves-nothing",),
            {"identifies": "the proof in its IDENTIFY does not verify"},
        ),
    ],
)
def test_each_mistake_is_named(
    monkeypatch: pytest.MonkeyPatch,
    role: str,
    breaks: tuple[str, ...],
    expected: dict[str, str],
) -> None:
    name_mistakes(monkeypatch, role, breaks, expected)
