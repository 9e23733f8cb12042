"""The schema of the settings: frozen dataclasses, each field with its type, default, unit, bounds, meaning, an example.

Files, `covey config`, error messages and the manual are drawn from it by `settings.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from covey.limits.actions import MAXIMUM_ACTIONS
from covey.limits.group import MAXIMUM_LABEL_BYTES
from covey.limits.mailbox import WAKE_HOOKS
from covey.limits.pairing import MAXIMUM_RELAY_URL_BYTES
from covey.limits.relay import COLLECTOR_SILENT_US, MAXIMUM_RELAYS
from covey.limits.settings import MAXIMUM_ALLOWED_SETTINGS
from covey.limits.storage import OUTBOX_BYTES
from covey.limits.telemetry import MAXIMUM_BATCH_READINGS
from covey.limits.units import MIB
from covey.limits.vault import SEGMENT_US

Value = str | bool | int | float | tuple[str, ...]


def _setting(
    default: Value,
    meaning: str,
    example: Value,
    unit: str = "",
    low: float | None = None,
    high: float | None = None,
    *,
    local: bool = False,
    choices: tuple[str, ...] = (),
) -> Any:
    """Declare a setting: its type is its default's; bounds are on a number's value, a text's bytes, a list's length.

    A text with `choices` is one of them.
    """
    about = {"default": default, "meaning": meaning, "example": example, "unit": unit, "bounds": (low, high)}
    return field(default=default, metadata={**about, "local": local, "choices": choices})


@dataclass(frozen=True, slots=True)
class RelayConfig:
    """[relay]: the MQTT broker, and further ones."""

    url: str = _setting(
        "",
        "the broker: mqtts://host[:port], or mqtt:// without TLS",
        "mqtts://relay.example.org",
        "",
        high=MAXIMUM_RELAY_URL_BYTES,
    )
    password_file: str = _setting(
        "relay.password",
        "file with this device's broker password, mode 0600; relative to the state folder",
        "/etc/covey/relay.password",
        local=True,
    )
    ca_file: str = _setting(
        "",
        "PEM file of the authority that signed the broker's certificate; empty: the system's",
        "/etc/covey/ca.pem",
        local=True,
    )
    client_certificate: str = _setting(
        "",
        "PEM file of this device's certificate, for a broker that asks for one; relative to the state folder",
        "relay.pem",
        local=True,
    )
    client_key: str = _setting(
        "",
        "PEM file of the certificate's private key, mode 0600; empty: it stands in the certificate's file",
        "/etc/covey/relay.key",
        local=True,
    )
    allow_tls12: bool = _setting(False, "speak TLS 1.2, too, with brokers that have no TLS 1.3", True, local=True)
    also: tuple[str, ...] = _setting(
        (),
        "further brokers at the same time, used in this order after the first; see 'covey relay add'",
        ("mqtts://cloud.example.org",),
        "URLs, with commas between them where they are not TOML",
        0,
        MAXIMUM_RELAYS - 1,
    )


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """[broker]: this device's authority over the broker, if it is to let new devices in."""

    password_file: str = _setting(
        "",
        "mosquitto's password file, to which a pairing adds the joiner; empty: none",
        "/srv/mosquitto/passwords",
        local=True,
    )
    pid_file: str = _setting(
        "",
        "mosquitto's pid file, to have it read its passwords again; empty: others see to that",
        "/run/mosquitto.pid",
        local=True,
    )
    ca_folder: str = _setting(
        "",
        "folder of a fleet CA, which issues certificates instead of passwords; empty: none",
        "/srv/covey/ca",
        local=True,
    )


@dataclass(frozen=True, slots=True)
class KeysConfig:
    """[keys]: this device's own keys."""

    rotation_days: float = _setting(
        30.0, "age at which the agent replaces the noise key; 0: never; more in large groups", 90.0, "days", 0, 3_650
    )


@dataclass(frozen=True, slots=True)
class PresenceConfig:
    """[presence]: telling the collector that this device is there."""

    interval_seconds: float = _setting(
        300.0, "longest silence towards the collector; 0: it is told nothing, and knows less", 60.0, "s", 0, 86_400
    )


@dataclass(frozen=True, slots=True)
class TelemetryConfig:
    """[telemetry]: how readings become messages."""

    group: str = _setting(
        "", "group that telemetry goes to; empty: the first one with a collector", "5f" * 32, "64 hexadecimal digits"
    )
    batch_seconds: float = _setting(60.0, "longest time that a reading waits for its batch", 10.0, "s", 0.1, 86_400)
    keep_days: float = _setting(
        0.0, "running time after which telemetry that has not come is dropped; 0: never", 30.0, "days", 0, 3_650
    )
    batch_readings: int = _setting(1_000, "most readings in one message", 200, "readings", 1, MAXIMUM_BATCH_READINGS)
    takeover_minutes: float = _setting(
        COLLECTOR_SILENT_US / 6e7,
        "silence of a collector after which new readings go to the next",
        120.0,
        "min",
        0.05,
        10_080,
    )


@dataclass(frozen=True, slots=True)
class HistoryConfig:
    """[history]: what groups have said."""

    keep_days: float = _setting(
        0.0,
        "time after which what a checkpoint covers is forgotten here; 0: never",
        90.0,
        "days",
        0,
        3_650,
    )


@dataclass(frozen=True, slots=True)
class SensorsConfig:
    """[sensors]: the machine's own sensors."""

    enabled: bool = _setting(True, "sample this machine's load, memory, disk, network and temperatures", False)
    interval_seconds: float = _setting(10.0, "time between two samples", 60.0, "s", 0.1, 86_400)


@dataclass(frozen=True, slots=True)
class OutboxConfig:
    """[outbox]: what waits for others."""

    maximum_bytes: int = _setting(OUTBOX_BYTES, "queued messages before new ones are refused", 2048 * MIB, "bytes", MIB)


@dataclass(frozen=True, slots=True)
class VaultConfig:
    """[vault]: where a collector lands telemetry."""

    location: str = _setting(
        "vault", "the vault: a directory, relative to the state folder, or an object store", "s3://bucket/covey"
    )
    segment_seconds: float = _setting(SEGMENT_US / 1e6, "age at which a segment is closed", 10.0, "s", 0.1, 3_600)


@dataclass(frozen=True, slots=True)
class BridgeConfig:
    """[bridge]: microcontrollers on serial ports, and over UDP."""

    ports: tuple[str, ...] = _setting(
        (),
        "serial ports with a board behind them, best by the names that stay",
        ("/dev/serial/by-id/usb-MicroPython_Board_in_FS_mode_e6614c311b7b4f2a-if00",),
        "paths, with commas between them where they are not TOML",
        0,
        16,
    )
    udp_listen: str = _setting(
        "",
        "address and port at which boards are heard over UDP, as on a line of their own; empty: none",
        "192.168.1.2:7425",
    )
    baud: int = _setting(115_200, "rate of ports that are UARTs; USB ignores it", 921_600, "bit/s", 1_200, 4_000_000)


@dataclass(frozen=True, slots=True)
class ApiConfig:
    """[api]: the local API."""

    socket: str = _setting(
        "", "Unix socket of the local API, relative to the state folder; empty: none", "/run/covey/api.sock", local=True
    )
    group: str = _setting(
        "",
        "group whose members may use the local API; empty: the group that the agent runs as",
        "covey",
        "",
        high=32,
        local=True,
    )


@dataclass(frozen=True, slots=True)
class OperationsConfig:
    """[operations]: what operators may tell this device."""

    operators: tuple[str, ...] = _setting(
        (),
        "keys of the devices whose orders this device obeys",
        ("covey-sign-mfrggzdfmztwq2lknnwg23tpoa",),
        "signing keys as 'covey key show' prints them, with commas between them where they are not TOML",
        0,
        64,
        local=True,
    )
    threshold: int = _setting(
        1, "how many operators have to agree with an order before this device obeys", 2, "operators", 1, 16, local=True
    )
    settings: tuple[str, ...] = _setting(
        ("app.*", "log.*", "presence.*", "sensors.*", "telemetry.batch_*"),
        "settings that operators may change; * stands for anything; what is this device's alone stays so",
        ("app.*", "sensors.interval_seconds", "relay.url"),
        "names of settings, with commas between them where they are not TOML",
        0,
        MAXIMUM_ALLOWED_SETTINGS,
        local=True,
    )
    commands: tuple[str, ...] = _setting(
        (),
        "actions that operators may have this device do: Covey's own, and those defined in operations.d",
        ("restart-agent", "read-now"),
        "names of actions, with commas between them where they are not TOML",
        0,
        MAXIMUM_ACTIONS,
        local=True,
    )


@dataclass(frozen=True, slots=True)
class LogConfig:
    """[log]: what the agent writes to the journal."""

    level: str = _setting(
        "info",
        "the least that is written: info, notice, warning or error",
        "warning",
        choices=("info", "notice", "warning", "error"),
    )


@dataclass(frozen=True, slots=True)
class AlertsConfig:
    """[alerts]: whom `covey alert watch` tells what is wrong with the fleet, and when."""

    webhook: str = _setting(
        "", "URL that each message is posted to; empty: none", "https://ntfy.sh/my-fleet", "", high=2_048, local=True
    )
    webhook_token_file: str = _setting(
        "",
        "file with the webhook's bearer token, mode 0600; relative to the state folder; empty: none",
        "/etc/covey/webhook.token",
        local=True,
    )
    webhook_json: bool = _setting(False, "post JSON; else the text alone, as ntfy wants it", True, local=True)
    mail_to: tuple[str, ...] = _setting(
        (),
        "e-mail addresses; empty: none",
        ("ops@example.org",),
        "addresses, with commas between them where they are not TOML",
        0,
        16,
        local=True,
    )
    mail_from: str = _setting("", "the sender's address; empty: the first of mail_to", "hub@example.org", local=True)
    mail_server: str = _setting(
        "smtp://localhost:25",
        "smtps://[user@]host[:port], or smtp:// with STARTTLS where there is a user",
        "smtps://hub@mail.example.org",
        local=True,
    )
    mail_password_file: str = _setting(
        "",
        "file with the mail server's password, mode 0600; relative to the state folder",
        "/etc/covey/mail.password",
        local=True,
    )
    program: tuple[str, ...] = _setting(
        (),
        "program, by its whole path, and its arguments; it reads the message as JSON; empty: none",
        ("/usr/local/bin/page-me", "--urgent"),
        "words, with commas between them where they are not TOML",
        0,
        32,
        local=True,
    )
    silent_minutes: float = _setting(15.0, "silence of a device that is told; 0: never", 60.0, "min", 0, 43_200)
    stale_minutes: float = _setting(
        180.0, "age of a series' last value that is told while its device is there; 0: never", 30.0, "min", 0, 1_440
    )
    disk_percent: float = _setting(90.0, "use of a device's disk that is told; 0: never", 80.0, "%", 0, 100)
    lost: bool = _setting(True, "tell of messages that a device admits to have lost", False)
    clock: bool = _setting(True, "tell of devices whose clock no time source has set", False)
    releases: bool = _setting(True, "tell of roll-outs that stop, and of devices that go back", False)
    settle_seconds: float = _setting(120.0, "how long something is wrong before it is told", 600.0, "s", 0, 86_400)
    restart_seconds: float = _setting(
        600.0, "time after a start or an outage here in which nobody's silence is told", 1_200.0, "s", 0, 86_400
    )


@dataclass(frozen=True, slots=True)
class ContentConfig:
    """[content]: the files of groups."""

    maximum_mb: int = _setting(
        1_000, "what files may take here; those that nobody has pinned go, used longest ago first", 4_000, "MB", 1
    )
    lan: bool = _setting(False, "give files to devices of this network, and take them from there, found by mDNS", True)
    lan_listen: str = _setting(
        "",
        "address and port to give files at (default: any address, any port; only private networks are answered)",
        "192.168.1.7:7480",
    )
    lan_peers: tuple[str, ...] = _setting(
        (),
        "further devices to take files from, where mDNS does not reach",
        ("10.0.7.2:7480",),
        "addresses with ports",
        0,
        32,
    )
    store: str = _setting(
        "",
        "an object store or folder that members share: what is put here goes there too, and files are taken from it",
        "s3://bucket/files",
    )


@dataclass(frozen=True, slots=True)
class MailboxConfig:
    """[mailbox]: keeping sealed envelopes for devices that sleep, and being woken by who keeps some."""

    serve: bool = _setting(False, "be a mailbox, in groups that name this device as one", True)
    maximum_mib: int = _setting(4_096, "what a mailbox keeps in all", 512, "MiB", 1)
    wake: tuple[str, ...] = _setting(
        (),
        "how mailboxes wake this device: mqtt, program, or an address of https://",
        ("https://ntfy.sh/my-laptop",),
        "hooks, with commas between them where they are not TOML",
        0,
        WAKE_HOOKS,
        local=True,
    )
    wake_topics: bool = _setting(
        False, "as a mailbox: publish to covey/1/wake/KEY for devices that ask to be woken by mqtt", True, local=True
    )
    wake_webhooks: tuple[str, ...] = _setting(
        (),
        "as a mailbox: addresses below which devices may have webhooks called; each ends with a slash",
        ("https://ntfy.sh/",),
        "addresses, with commas between them where they are not TOML",
        0,
        16,
        local=True,
    )
    wake_program: tuple[str, ...] = _setting(
        (),
        "as a mailbox: program, by its whole path, and its arguments, that wakes a device; its key comes last",
        ("/usr/local/bin/wake-on-lan",),
        "words, with commas between them where they are not TOML",
        0,
        32,
        local=True,
    )


@dataclass(frozen=True, slots=True)
class Config:
    """Every setting."""

    label: str = _setting(
        "", "a name for people, shown beside the device's own", "greenhouse", "", high=MAXIMUM_LABEL_BYTES
    )
    relay: RelayConfig = field(default_factory=RelayConfig)
    broker: BrokerConfig = field(default_factory=BrokerConfig)
    keys: KeysConfig = field(default_factory=KeysConfig)
    presence: PresenceConfig = field(default_factory=PresenceConfig)
    telemetry: TelemetryConfig = field(default_factory=TelemetryConfig)
    history: HistoryConfig = field(default_factory=HistoryConfig)
    sensors: SensorsConfig = field(default_factory=SensorsConfig)
    outbox: OutboxConfig = field(default_factory=OutboxConfig)
    content: ContentConfig = field(default_factory=ContentConfig)
    mailbox: MailboxConfig = field(default_factory=MailboxConfig)
    vault: VaultConfig = field(default_factory=VaultConfig)
    bridge: BridgeConfig = field(default_factory=BridgeConfig)
    api: ApiConfig = field(default_factory=ApiConfig)
    operations: OperationsConfig = field(default_factory=OperationsConfig)
    log: LogConfig = field(default_factory=LogConfig)
    alerts: AlertsConfig = field(default_factory=AlertsConfig)


SECTIONS: dict[str, type] = {
    "relay": RelayConfig,
    "broker": BrokerConfig,
    "keys": KeysConfig,
    "presence": PresenceConfig,
    "telemetry": TelemetryConfig,
    "history": HistoryConfig,
    "sensors": SensorsConfig,
    "outbox": OutboxConfig,
    "content": ContentConfig,
    "mailbox": MailboxConfig,
    "vault": VaultConfig,
    "bridge": BridgeConfig,
    "api": ApiConfig,
    "operations": OperationsConfig,
    "log": LogConfig,
    "alerts": AlertsConfig,
}
"""By their names in a file."""
