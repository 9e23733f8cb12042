"""`covey conformance` names what sensors, operators and collectors do wrong."""

from __future__ import annotations

import pytest

from tests.integration.conformance_runs import name_mistakes

_ADDING = "adding another member"
_LOSING = "losing acknowledgements"
_APPOINTING = "making the device an operator"
_SETTING = "having it set something"
_NEEDING_TWO = "giving an order that needs two operators"


@pytest.mark.processes
@pytest.mark.parametrize(
    ("role", "breaks", "steps", "expected"),
    [
        (
            "sensor",
            ("subscribes-to-everything", "starts-clean", "ignores-even-keys"),
            (_ADDING, "using unknown extension keys"),
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
            (_LOSING,),
            {"batch-numbers": "and again under", "resends": "it did not send link-seq"},
        ),
        (
            "sensor",
            ("resends-other-bytes",),
            (_LOSING,),
            {"one-message": "it sent two different messages as link-seq"},
        ),
        (
            "sensor",
            ("forgets-on-puback",),
            (_LOSING, "forging acknowledgements", "killing the device while a batch waits"),
            {
                "resends": "it did not send link-seq",
                "stranger-ack": "it never came again",
                "killed": "was not acknowledged, and is gone after SIGKILL",
            },
        ),
        (
            "sensor",
            ("verifies-no-signature", "frees-without-imprints"),
            ("forging acknowledgements", _ADDING, "forging messages"),
            {
                "forged-message": "it took a message that another key signed",
                "forged-ack": "on an acknowledgement with a forged signature: it never came again",
                "imprint-ack": "on an acknowledgement that covers it without its imprint: it never came again",
            },
        ),
        (
            "operator",
            ("signs-one-number-twice", "obeys-one-operator", "writes-to-boards"),
            (_ADDING, _APPOINTING, _SETTING, "having it give commands", _NEEDING_TWO, "counting its operations"),
            {
                "log": "it signed two different operations with number",
                "threshold": "it obeyed an order that one operator has signed, where its owner demands two",
                "spares-boards": "it sent OPERATIONS to a board, which knows neither groups nor their orders",
            },
        ),
        (
            "operator",
            ("gives-one-once-id", "follows-its-own-log"),
            (_ADDING, _APPOINTING, _SETTING, "having it give commands"),
            {
                "once-ids": "it gave two commands one once-id",
                "follows": "its order does not follow a note that it had heard before",
                "counts": "its order does not count though another operator has approved it",
            },
        ),
        (
            "collector",
            ("lands-nothing",),
            (_ADDING, "sending batches"),
            {"lands": "a collector acknowledges when it has landed"},
        ),
        (
            "collector",
            ("acknowledges-over-gaps",),
            (_ADDING, "sending batches", "sending a batch too early"),
            {"gaps": "it acknowledged a batch that has not come"},
        ),
        (
            "collector",
            ("waits-for-lost-messages", "verifies-no-signature", "forgets-at-start"),
            (
                *(_ADDING, "sending batches", "reporting a loss", "forging a batch"),
                "killing the collector after an acknowledgement",
            ),
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
    steps: tuple[str, ...],
    expected: dict[str, str],
) -> None:
    name_mistakes(monkeypatch, role, breaks, steps, expected)
