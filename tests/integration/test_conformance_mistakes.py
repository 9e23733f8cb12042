"""`covey conformance` names what sensors, members, operators and collectors do wrong."""

from __future__ import annotations

import pytest

from tests.integration.conformance_runs import name_mistakes


@pytest.mark.proof
@pytest.mark.parametrize(
    ("role", "breaks", "expected"),
    [
        (
            "sensor",
            ("subscribes-to-everything", "starts-clean", "ignores-even-keys"),
            {
                "subscription": "it subscribed to '#', which is not its own inbox",
                "session": "it asked for Clean Start 1, which throws away what waits for it and a Session Expiry of "
                "3600 s; the section wants 0 and 604800 s",
                "even-key": "it took a message with an unknown even extension key as if it had understood it",
            },
        ),
        (
            "sensor",
            ("resends-under-a-new-number",),
            {"batch-numbers": "and again under", "resends": "it did not send link-seq"},
        ),
        (
            "sensor",
            ("resends-other-bytes",),
            {"one-message": "it sent two different messages as link-seq", "resends": "it did not send link-seq"},
        ),
        (
            "sensor",
            ("forgets-on-puback",),
            {
                "resends": "it did not send link-seq",
                "killed": "was not acknowledged, and is gone after SIGKILL",
            },
        ),
        (
            "sensor",
            ("verifies-no-signature", "frees-without-imprints"),
            {
                "forged-message": "it took a message that another key signed",
                "forged-ack": "on an acknowledgement with a forged signature: it never came again",
                "imprint-ack": "on an acknowledgement that covers it without its imprint: it never came again",
            },
        ),
        (
            "member",
            ("says-nothing-of-groups",),
            {
                "heads": "its acknowledgements carry no digest of the shared groups",
                "history": "its digest of histories is not that of a history with the new operation",
            },
        ),
        (
            "member",
            ("says-nothing-of-groups",),
            {
                "conflict": "its digest of the group is not the one that the rules give",
                "removal": "it did not take the manifest that removes a member",
            },
        ),
        (
            "member",
            ("obeys-nobody",),
            {
                "setting": "it sent no SETTING_REPORT about app.conformance",
                "order": "it wrote no operation of kind `obeying`",
            },
        ),
        (
            "operator",
            ("signs-one-number-twice", "obeys-one-operator", "writes-to-boards"),
            {
                "log": "it signed two different operations with number",
                "threshold": "it obeyed an order that one operator has signed, where its owner demands two",
                "spares-boards": "it sent OPERATIONS to a board, which knows neither groups nor their orders",
            },
        ),
        (
            "operator",
            ("gives-one-once-id", "follows-its-own-log"),
            {
                "once-ids": "it gave two commands one once-id",
                "follows": "its order does not follow a note that it had heard before",
                "counts": "its order does not count though another operator has approved it",
            },
        ),
        (
            "collector",
            ("lands-nothing",),
            {"lands": "a collector acknowledges when it has landed"},
        ),
        (
            "collector",
            ("acknowledges-over-gaps",),
            {"gaps": "it acknowledged a batch that has not come"},
        ),
        (
            "collector",
            ("waits-for-lost-messages", "verifies-no-signature", "forgets-at-start"),
            {
                "losses": "it still waits for a message that a LOSS names",
                "forged-batch": "it acknowledged a batch that another key signed",
                "durable": "and forgot it by SIGKILL",
            },
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
