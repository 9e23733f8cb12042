"""Batches as JSON to a URL, signed as https://www.standardwebhooks.com says where there is a secret."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from binascii import Error as Base64Error
from pathlib import Path
from typing import TYPE_CHECKING, Any

from covey.adapters.doors.http_post import HttpPost, secret_text
from covey.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from covey.adapters.doors.kinds import DoorOpening
    from covey.config.doors import Webhook
    from covey.core.ids import DeviceKey
    from covey.core.telemetry.doors import DoorBatch, DoorMessage, DoorReading, KnownDevice
    from covey.core.telemetry.drops import Drop

_PREFIX = "whsec_"


def from_entry(opening: DoorOpening) -> WebhookDoor:
    """Open the door of an entry."""
    return WebhookDoor(opening.options, opening.where, opening.folder)


class WebhookDoor:
    """Posts each batch."""

    def __init__(self, options: Webhook, where: str, folder: Path) -> None:
        """Check what is configured.

        Raises:
            ConfigurationError: as `HttpPost`.
        """
        self._post = HttpPost(options.url, where, folder, options.token_file, options.ca_file)
        self._secret = folder / options.secret_file if options.secret_file else None

    def note_devices(self, _devices: Mapping[DeviceKey, KnownDevice]) -> None:
        """Each batch says what its devices are called."""

    def send(self, batch: DoorBatch) -> Mapping[Drop, int]:
        """Post a batch; `DoorError` where it was not taken, `ConfigurationError` where a secret cannot be used."""
        body = json.dumps(document(batch), ensure_ascii=False, separators=(",", ":")).encode()
        headers = {"Content-Type": "application/json", "Idempotency-Key": batch.id, "webhook-id": batch.id}
        if self._secret is not None:
            headers["webhook-timestamp"] = at = str(batch.sent_at_us // 1_000_000)
            signed = f"{batch.id}.{at}.".encode() + body
            digest = hmac.digest(_key(self._secret), signed, hashlib.sha256)
            headers["webhook-signature"] = f"v1,{base64.b64encode(digest).decode()}"
        self._post.post(body, headers)
        return {}

    def idle(self) -> None:
        """Nothing is left to do."""

    def close(self) -> None:
        """Close the connection."""
        self._post.close()


def _key(path: Path) -> bytes:
    text = secret_text(path)
    if not text.startswith(_PREFIX):
        return text.encode()
    try:
        return base64.b64decode(text.removeprefix(_PREFIX), validate=True)
    except Base64Error:
        raise ConfigurationError(f"{path}: the text after {_PREFIX} is not base64") from None


def document(batch: DoorBatch) -> dict[str, Any]:
    """Return a batch as a document of JSON. Times are microseconds since 1970."""
    return {
        "id": batch.id,
        "door": batch.door,
        "sent_at_us": batch.sent_at_us,
        "messages": [
            {
                "id": each.id,
                "device": each.author.hex(),
                "label": batch.labels.get(each.author, ""),
                "group": each.group,
                "received_at_us": each.received_at_us,
                "clock": each.clock.name.lower(),
                "readings": [_reading(batch, each, reading) for reading in each.readings],
            }
            for each in batch.messages
        ],
    }


def _reading(batch: DoorBatch, message: DoorMessage, reading: DoorReading) -> dict[str, Any]:
    value = reading.value
    found: dict[str, Any] = {"name": reading.name, "unit": reading.unit, "at_us": reading.at_us}
    if isinstance(value, bytes):
        found["data"] = base64.b64encode(value).decode()
    else:
        found["value"] = value
    return found | {"backlog": True} if batch.is_backlog(message, reading) else found
