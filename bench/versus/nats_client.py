"""As much of a NATS client as the rig needs: requests, and JetStream's acknowledgements. One thread, one connection.

The protocol: https://docs.nats.io/reference/reference-protocols/nats-protocol
JetStream's subjects: https://docs.nats.io/reference/reference-protocols/nats_api_reference
"""

from __future__ import annotations

import itertools
import json
import secrets
import socket
import time
from dataclasses import dataclass
from typing import Any

_HEADERS = b"NATS/1.0\r\n"


@dataclass(frozen=True, slots=True)
class Message:
    """What came; `status` is empty unless the server answers for somebody."""

    subject: str
    reply: str
    status: str
    payload: bytes


class NatsClient:
    """A connection. Every method raises OSError when it is lost, or when no answer comes in time."""

    def __init__(self, port: int, patience_s: float = 2.0) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), patience_s)
        self._socket.settimeout(patience_s)
        self._patience_s = patience_s
        self._stream = self._socket.makefile("rb")
        self._inbox = f"_INBOX.{secrets.token_hex(8)}"
        self._numbers = itertools.count()
        self._line()  # INFO
        options = {"verbose": False, "pedantic": False, "headers": True, "no_responders": True, "lang": "python"}
        self._send(f"CONNECT {json.dumps(options)}\r\nSUB {self._inbox}.* 1\r\nPING\r\n".encode())
        while self._line() != b"PONG":
            pass

    def close(self) -> None:
        """Close it."""
        self._stream.close()
        self._socket.close()

    def ask(self, subject: str, payload: bytes = b"", message_id: str = "") -> str:
        """Send a request; return the subject on which answers come."""
        reply = f"{self._inbox}.{next(self._numbers)}"
        if message_id:
            headers = _HEADERS + f"Nats-Msg-Id: {message_id}\r\n\r\n".encode()
            head = f"HPUB {subject} {reply} {len(headers)} {len(headers) + len(payload)}\r\n".encode()
            self._send(head + headers + payload + b"\r\n")
        else:
            self._send(f"PUB {subject} {reply} {len(payload)}\r\n".encode() + payload + b"\r\n")
        return reply

    def request(self, subject: str, payload: bytes = b"", message_id: str = "") -> Message:
        """Send a request; return its answer."""
        reply = self.ask(subject, payload, message_id)
        until = time.monotonic() + self._patience_s
        while time.monotonic() < until:
            message = self.next()
            if message.subject == reply:
                return message
        raise TimeoutError(f"no answer to {subject}")

    def api(self, subject: str, document: dict[str, Any]) -> dict[str, Any]:
        """Ask JetStream for something; return its answer, or raise OSError if it refuses."""
        message = self.request(f"$JS.API.{subject}", json.dumps(document).encode())
        answer = json.loads(message.payload or b"{}")
        if message.status or "error" in answer:
            raise OSError(f"{subject}: {message.status} {answer.get('error')}")
        return dict(answer)

    def next(self) -> Message:
        """Return the next message."""
        while True:
            words = self._line().split()
            if words == [b"PING"]:
                self._send(b"PONG\r\n")
            elif words and words[0] in {b"MSG", b"HMSG"}:
                return self._message(words)
            elif words and words[0] == b"-ERR":
                raise OSError(b" ".join(words).decode())

    def _message(self, words: list[bytes]) -> Message:
        numbers = 2 if words[0] == b"HMSG" else 1
        header_bytes = int(words[-2]) if numbers == 2 else 0
        size = int(words[-1])
        body = self._stream.read(size + 2)
        if len(body) != size + 2:
            raise ConnectionResetError("the server has gone")
        middle = words[3 : len(words) - numbers]
        first = body[:header_bytes].split(b"\r\n")[0].removeprefix(b"NATS/1.0").strip().decode()
        return Message(words[1].decode(), middle[0].decode() if middle else "", first, body[header_bytes:size])

    def _line(self) -> bytes:
        line = self._stream.readline()
        if not line.endswith(b"\n"):
            raise ConnectionResetError("the server has gone")
        return line.strip()

    def _send(self, content: bytes) -> None:
        self._socket.sendall(content)
