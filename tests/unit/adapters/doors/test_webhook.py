"""A webhook at a real web server: signed as a receiver's library verifies it, with its token, never elsewhere."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from standardwebhooks.webhooks import Webhook as Verifier
from standardwebhooks.webhooks import WebhookVerificationError

from covey.adapters.doors.webhook import WebhookDoor
from covey.config.doors import Webhook
from covey.core.ids import DeviceKey
from covey.core.telemetry.batch import ClockKind
from covey.core.telemetry.doors import DoorBatch, DoorMessage, DoorReading
from covey.errors import ConfigurationError, DoorError
from tests.dripping_server import dripping_server
from tests.receiver import Receiver, receiver

_KEY = DeviceKey(bytes(range(32)))


@pytest.fixture
def web() -> Iterator[Receiver]:
    with receiver() as found:
        yield found


def _batch() -> DoorBatch:
    now_us = time.time_ns() // 1_000
    reading = DoorReading("t", "Cel", now_us, 21.5)
    message = DoorMessage("m-1", _KEY, "00" * 32, now_us, ClockKind.SYNCHRONISED, (reading,))
    return DoorBatch("b-1", "cloud", now_us, 300_000_000, (message,), {_KEY: "büro"})


def _secret(folder: Path, text: str, mode: int = 0o600) -> str:
    path = folder / "secret"
    path.write_text(text)
    path.chmod(mode)
    return "secret"


@pytest.mark.parametrize("is_coded", [True, False])
def test_a_receiver_verifies_the_signature(web: Receiver, tmp_path: Path, *, is_coded: bool) -> None:
    key = b"0123456789abcdef0123456789abcdef"
    text = f"whsec_{base64.b64encode(key).decode()}" if is_coded else key.decode()
    door = WebhookDoor(Webhook(url=web.url, secret_file=_secret(tmp_path, f"{text}\n")), "door cloud", tmp_path)
    door.send(_batch())
    (post,) = web.posts
    document = Verifier(key).verify(post.body, post.headers)
    assert document["messages"][0]["label"] == "büro"
    with pytest.raises(WebhookVerificationError):
        Verifier(key).verify(post.body + b" ", post.headers)
    assert text.encode() not in post.body
    assert all(text not in each for each in post.headers.values())


def test_a_token_goes_with_each_batch_over_one_connection(web: Receiver, tmp_path: Path) -> None:
    door = WebhookDoor(Webhook(url=web.url, token_file=_secret(tmp_path, "tk_123\n")), "door cloud", tmp_path)
    for _ in range(3):
        door.send(_batch())
    door.close()
    assert [each.headers["authorization"] for each in web.posts] == ["Bearer tk_123"] * 3
    assert web.connections == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "begins",
    [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n", b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"],
)
def test_a_receiver_that_answers_byte_by_byte_times_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begins: bytes
) -> None:
    monkeypatch.setattr("covey.adapters.doors.http_post.DOOR_SEND_SECONDS", 0.2)
    with dripping_server(begins) as port, pytest.raises(DoorError, match="cannot be reached"):
        WebhookDoor(Webhook(url=f"http://127.0.0.1:{port}/"), "door cloud", tmp_path).send(_batch())


def test_a_connection_that_was_closed_meanwhile_is_opened_once_more(web: Receiver, tmp_path: Path) -> None:
    door = WebhookDoor(Webhook(url=web.url), "door cloud", tmp_path)
    web.headers = {"Connection": "close"}
    door.send(_batch())
    door.send(_batch())
    assert web.connections == 2


@pytest.mark.parametrize(("answer", "refused"), [(302, False), (404, False), (500, False), (400, True), (413, True)])
def test_only_a_success_answer_counts_as_delivered(
    web: Receiver, tmp_path: Path, answer: int, *, refused: bool
) -> None:
    web.answers = [answer]
    web.headers = {"Location": "/elsewhere"}
    with pytest.raises(DoorError, match=f"^127.0.0.1 answered with HTTP status {answer}$") as caught:
        WebhookDoor(Webhook(url=web.url), "door cloud", tmp_path).send(_batch())
    assert caught.value.refused is refused
    assert len(web.posts) == 1, "no redirection is followed"


def test_unusable_webhook_options_are_refused_before_sending(web: Receiver, tmp_path: Path) -> None:
    for options, why in (
        (Webhook(url="ftp://example.org/"), "must be a http"),
        (Webhook(url="https://user:word@example.org/"), "without a password"),
        (Webhook(url="http://example.org/", token_file="t"), "over https:// only"),
        (Webhook(url="https://example.org/", ca_file="no-such-file"), "holds no certificates"),
    ):
        with pytest.raises(ConfigurationError, match=why):
            WebhookDoor(options, "door cloud", tmp_path)
    for text, mode, why in (
        ("a\nb", 0o600, "must hold a secret"),
        ("whsec_!", 0o600, "base64"),
        ("abc", 0o644, "open to other users"),
    ):
        door = WebhookDoor(Webhook(url=web.url, secret_file=_secret(tmp_path, text, mode)), "door cloud", tmp_path)
        with pytest.raises(ConfigurationError, match=why):
            door.send(_batch())
    assert web.posts == []


def test_a_receiver_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(DoorError, match=r"^127\.0\.0\.1 cannot be reached: Connection refused$") as caught:
        WebhookDoor(Webhook(url="http://127.0.0.1:1/"), "door cloud", tmp_path).send(_batch())
    assert not caught.value.refused
