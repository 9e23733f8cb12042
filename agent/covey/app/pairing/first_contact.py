"""A joiner's first contact with its relay, whose authority it may not know yet.

1. A relay whose certificate the system trusts, or the authority that a person named, is proved at once.
2. With any other TLS relay only the ceremony is run, which trusts nothing on the way. A person in the middle learns the
   password that joiners share, which reads nothing (ADR 53).
3. The ceremony's result proves the relay before anything is stored: the inviter's authorities, or those of the system.
4. An error that waiting cannot fix ends the join at once, an unreachable relay after a limit, each with the hint of
   `check`.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING

from covey.adapters.broker.own_relay import CREDENTIAL_HINT, NO_MQTT_5, OLD_SERVER_HINT, connect
from covey.adapters.mqtt.settings import Place
from covey.app.loop.link_windows import RESTING
from covey.errors import RelayError

if TYPE_CHECKING:
    from covey.app.device.device import Device

_UNREACHABLE_S = 60.0
"""A machine that has just been switched on, or a relay that is being restarted, is there by then."""
_RETRY_S = 1.0

_LOOK_S = 10.0
_REFUSED_S = 30.0
"""A broker takes an account up that was made a moment ago within a second or two; one that is restarted, later."""


def is_proved(
    url: str,
    ca_file: Path | None,
    *,
    allow_tls12: bool,
    given_up: Callable[[], bool],
    places: Sequence[Place] = (),
) -> bool:
    """Reach a relay at its URL, or at another of its places; say whether its certificate is trusted already.

    Raises:
        ConfigurationError: the URL or the file is not usable.
        RelayError: it is not reached in time, speaks another TLS, or is not who a named authority says.
    """
    deadline = time.monotonic() + _UNREACHABLE_S
    while True:
        try:
            _connect(url, ca_file, places, allow_tls12=allow_tls12)
        except RelayError as error:
            if isinstance(error.__cause__, ssl.SSLCertVerificationError):
                if ca_file is not None:
                    raise
                return False
            if isinstance(error.__cause__, ssl.SSLError) or given_up() or time.monotonic() >= deadline:
                raise
            time.sleep(_RETRY_S)
        else:
            return True


def _connect(url: str, ca_file: Path | None, places: Sequence[Place], *, allow_tls12: bool) -> None:
    """Connect where the relay answers; the error is that of its URL."""
    try:
        connect(url, ca_file, allow_tls12=allow_tls12)
    except RelayError as error:
        if isinstance(error.__cause__, ssl.SSLError):
            raise
        for place in places:
            try:
                connect(url, ca_file, allow_tls12=allow_tls12, place=place)
            except RelayError as other:
                if isinstance(other.__cause__, ssl.SSLError):
                    raise
            else:
                return
        raise


def prove(url: str, certificates: str, *, allow_tls12: bool, places: Sequence[Place] = ()) -> None:
    """Have a relay prove itself by the authorities that an inviter told, or the system's where it told none.

    Raises:
        RelayError: it does not: somebody may stand between.
    """
    with NamedTemporaryFile("w", suffix=".pem") as kept:
        kept.write(certificates)
        kept.flush()
        _connect(url, Path(kept.name) if certificates else None, places, allow_tls12=allow_tls12)


class RelayPatience:
    """How long a person who waits for something is left waiting while the relay does not let this device in."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._began = time.monotonic()
        self._look_at = self._began + _LOOK_S

    def check(self) -> None:
        """Look at it now and then; a relay that this device has reached is waited for as long as the person wants.

        Raises:
            RelayError: it is not trusted, refuses this device, or was not reached in time.
        """
        now, relay = time.monotonic(), self._device.config.relay
        noted = self._device.store.conditions.values().get("relay", ("", 0))[0]
        if not noted or noted in {"up", RESTING} or not relay.url or now < self._look_at:
            return
        self._look_at = now + _LOOK_S
        try:
            authority = Path(relay.ca_file) if relay.ca_file else None
            connect(relay.url, authority, allow_tls12=relay.allow_tls12)
        except RelayError as error:
            if isinstance(error.__cause__, ssl.SSLError) or now - self._began >= _UNREACHABLE_S:
                raise
        else:
            if now - self._began >= _REFUSED_S:
                hint = OLD_SERVER_HINT if NO_MQTT_5 in noted else CREDENTIAL_HINT
                raise RelayError(f"the relay refuses this device: {noted}", hint=hint)
