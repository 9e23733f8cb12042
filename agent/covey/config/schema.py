"""The schema of the settings: frozen dataclasses, each field with its type, default, unit, bounds, meaning, an example.

Files, `covey config`, error messages and the manual are drawn from it by `settings.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from covey.core.link.budget import link_budget
from covey.core.link.connect_windows import connect_schedule
from covey.core.telemetry.series_rules import read_series_rule
from covey.limits.actions import MAXIMUM_ACTIONS
from covey.limits.group import MAXIMUM_LABEL_BYTES
from covey.limits.mailbox import WAKE_HOOKS
from covey.limits.pairing import MAXIMUM_RELAY_URL_BYTES
from covey.limits.relay import COLLECTOR_SILENT_US, MAXIMUM_RELAY_ADDRESSES, MAXIMUM_RELAYS
from covey.limits.settings import MAXIMUM_ALLOWED_SETTINGS
from covey.limits.storage import OUTBOX_BYTES
from covey.limits.telemetry import MAXIMUM_BATCH_READINGS, MAXIMUM_SERIES_RULES
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
    check: Callable[[str], object] | None = None,
) -> Any:
    """Declare a setting: its type is its default's; bounds are on a number's value, a text's bytes, a list's length.

    A text with `choices` is one of them. `check` raises `ConfigurationError` for a text that
    means nothing, alone or in a list.
    """
    about = {"default": default, "meaning": meaning, "example": example, "unit": unit, "bounds": (low, high)}
    return field(default=default, metadata={**about, "local": local, "choices": choices, "check": check})


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
        "PEM file of this device's certificate, for brokers that require one; relative to the state folder",
        "relay.pem",
        local=True,
    )
    client_key: str = _setting(
        "",
        "PEM file of the certificate's private key, mode 0600; empty: the key is in the certificate's file",
        "/etc/covey/relay.key",
        local=True,
    )
    allow_tls12: bool = _setting(False, "also allow TLS 1.2, for brokers without TLS 1.3", True, local=True)
    search: bool = _setting(
        True, "look on the local network for a relay with its own authority that does not answer", False, local=True
    )
    addresses: tuple[str, ...] = _setting(
        (),
        "further addresses of the first broker, tried in turn if it does not answer at its URL",
        ("hub2.example.org:8883", "192.0.2.7:8883"),
        "HOST:PORT, separated by commas unless written as TOML",
        0,
        MAXIMUM_RELAY_ADDRESSES,
    )
    also: tuple[str, ...] = _setting(
        (),
        "further brokers, used at the same time, in this order of preference; see 'covey relay add'",
        ("mqtts://cloud.example.org",),
        "URLs, separated by commas unless written as TOML",
        0,
        MAXIMUM_RELAYS - 1,
    )


@dataclass(frozen=True, slots=True)
class LinkConfig:
    """[link]: what the connection to the relays may cost."""

    connect: str = _setting(
        "always",
        "when to connect to the relays: always, every 1h (10m to 7d), or at 02:00 (UTC)",
        "every 1h",
        check=connect_schedule,
    )
    budget: str = _setting(
        "",
        "what all traffic with the relays may cost, for example 1 MB/month or 20 kB/day; empty: no limit",
        "1 MB/month",
        check=link_budget,
    )


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """[broker]: this device's authority over the broker, if it is to let new devices in."""

    password_file: str = _setting(
        "",
        "mosquitto's password file, where pairing adds the joining device; empty: none",
        "/srv/mosquitto/passwords",
        local=True,
    )
    pid_file: str = _setting(
        "",
        "mosquitto's pid file, to make it reload its passwords; empty: another program does that",
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
        300.0, "longest time without a sign of life to the collector; 0: send none", 60.0, "s", 0, 86_400
    )


@dataclass(frozen=True, slots=True)
class TelemetryConfig:
    """[telemetry]: how readings become messages."""

    group: str = _setting(
        "",
        "group that receives the readings; empty: the first one with a collector",
        "5f" * 32,
        "64 hexadecimal digits",
    )
    batch_seconds: float = _setting(60.0, "longest time that a reading waits for a full batch", 10.0, "s", 0.1, 86_400)
    series: tuple[str, ...] = _setting(
        (),
        "rules for series: which readings are alarms, sent at once, and what is kept of a series where space is short",
        ("freezer/* alarm > -15 hysteresis 2", "meter/* keep whole", "cpu/* keep newest"),
        "rules, separated by commas unless written as TOML",
        0,
        MAXIMUM_SERIES_RULES,
        check=read_series_rule,
    )
    receipts: bool = _setting(
        False, "sign readings so that 'covey prove' can prove each one alone; about 84 bytes per message", True
    )
    keep_days: float = _setting(
        0.0, "running time of the agent after which undelivered readings are deleted; 0: never", 30.0, "days", 0, 3_650
    )
    batch_readings: int = _setting(
        1_000, "maximum number of readings in one message", 200, "readings", 1, MAXIMUM_BATCH_READINGS
    )
    takeover_minutes: float = _setting(
        COLLECTOR_SILENT_US / 6e7,
        "silence of a collector after which new readings go to the next collector",
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
        "age at which history covered by a checkpoint is deleted here; 0: never",
        90.0,
        "days",
        0,
        3_650,
    )


@dataclass(frozen=True, slots=True)
class SensorsConfig:
    """[sensors]: the machine's own sensors."""

    enabled: bool = _setting(True, "sample this machine's load, memory, disk, network and temperatures", False)
    packages: bool = _setting(False, "report the installed packages when they change, for 'covey fleet --has'", True)
    interval_seconds: float = _setting(10.0, "time between two samples", 60.0, "s", 0.1, 86_400)


@dataclass(frozen=True, slots=True)
class OutboxConfig:
    """[outbox]: what waits for others."""

    maximum_bytes: int = _setting(
        OUTBOX_BYTES, "size of the queued messages at which new ones are refused", 2048 * MIB, "bytes", MIB
    )


@dataclass(frozen=True, slots=True)
class VaultConfig:
    """[vault]: where a collector lands telemetry."""

    location: str = _setting(
        "vault", "the vault: a folder, relative to the state folder, or an object store", "s3://bucket/covey"
    )
    mirrors: tuple[str, ...] = _setting(
        (),
        "copies of the vault that damaged segments are restored from, as 'covey vault pull' makes them",
        ("/mnt/usb/covey", "s3://bucket/copy"),
        "folders and object stores, separated by commas unless written as TOML",
        0,
        16,
    )
    segment_seconds: float = _setting(SEGMENT_US / 1e6, "age at which a segment is closed", 10.0, "s", 0.1, 3_600)


@dataclass(frozen=True, slots=True)
class BridgeConfig:
    """[bridge]: microcontrollers on serial ports, and over UDP."""

    ports: tuple[str, ...] = _setting(
        (),
        "serial ports with boards; prefer names that stay the same (/dev/serial/by-id)",
        ("/dev/serial/by-id/usb-MicroPython_Board_in_FS_mode_e6614c311b7b4f2a-if00",),
        "paths, separated by commas unless written as TOML",
        0,
        16,
    )
    udp_listen: str = _setting(
        "",
        "address and port that receive boards over UDP; empty: none",
        "192.168.1.2:7425",
    )
    baud: int = _setting(115_200, "baud rate of UART ports; USB ignores it", 921_600, "bit/s", 1_200, 4_000_000)


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
        "signing keys as 'covey key show' prints them, separated by commas unless written as TOML",
        0,
        64,
        local=True,
    )
    threshold: int = _setting(
        1, "number of operators that must sign an order before this device obeys it", 2, "operators", 1, 16, local=True
    )
    settings: tuple[str, ...] = _setting(
        ("app.*", "log.*", "presence.*", "sensors.*", "telemetry.batch_*", "telemetry.series"),
        "settings that operators may change; * matches anything; local settings are never included",
        ("app.*", "sensors.interval_seconds", "relay.url"),
        "names of settings, separated by commas unless written as TOML",
        0,
        MAXIMUM_ALLOWED_SETTINGS,
        local=True,
    )
    commands: tuple[str, ...] = _setting(
        (),
        "actions that operators may run on this device: Covey's own, and those defined in operations.d",
        ("restart-agent", "read-now"),
        "names of actions, separated by commas unless written as TOML",
        0,
        MAXIMUM_ACTIONS,
        local=True,
    )


@dataclass(frozen=True, slots=True)
class LogConfig:
    """[log]: what the agent writes to the journal."""

    level: str = _setting(
        "info",
        "lowest level that is logged: info, notice, warning or error",
        "warning",
        choices=("info", "notice", "warning", "error"),
    )


@dataclass(frozen=True, slots=True)
class AlertsConfig:
    """[alerts]: the targets of `covey alert watch`, and when it sends alerts."""

    webhook: str = _setting(
        "", "URL to post each message to; empty: none", "https://ntfy.sh/my-fleet", "", high=2_048, local=True
    )
    webhook_token_file: str = _setting(
        "",
        "file with the webhook's bearer token, mode 0600; relative to the state folder; empty: none",
        "/etc/covey/webhook.token",
        local=True,
    )
    webhook_json: bool = _setting(False, "post JSON; otherwise plain text, as ntfy expects", True, local=True)
    mail_to: tuple[str, ...] = _setting(
        (),
        "e-mail addresses; empty: none",
        ("ops@example.org",),
        "addresses, separated by commas unless written as TOML",
        0,
        16,
        local=True,
    )
    mail_from: str = _setting("", "sender address; empty: the first of mail_to", "hub@example.org", local=True)
    mail_server: str = _setting(
        "smtp://localhost:25",
        "smtps://[user@]host[:port], or smtp:// (with STARTTLS if a user is given)",
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
        "program (absolute path) and its arguments; reads the message as JSON; empty: none",
        ("/usr/local/bin/page-me", "--urgent"),
        "words, separated by commas unless written as TOML",
        0,
        32,
        local=True,
    )
    silent_minutes: float = _setting(
        15.0, "silence of a device that triggers an alert; 0: never", 60.0, "min", 0, 43_200
    )
    stale_minutes: float = _setting(
        180.0,
        "age of a series' last value that triggers an alert while its device is online; 0: never",
        30.0,
        "min",
        0,
        1_440,
    )
    disk_percent: float = _setting(90.0, "disk usage of a device that triggers an alert; 0: never", 80.0, "%", 0, 100)
    lost: bool = _setting(True, "alert when a device reports lost messages", False)
    clock: bool = _setting(True, "alert when a device's clock is not synchronised", False)
    alarms: bool = _setting(True, "alert when a reading is an alarm, as its device defines it", False)
    releases: bool = _setting(True, "alert when a release stops or a device rolls back", False)
    settle_seconds: float = _setting(
        120.0, "time that a problem must last before an alert is sent", 600.0, "s", 0, 86_400
    )
    restart_seconds: float = _setting(
        600.0,
        "time after a start or an outage of this device without alerts about silent devices",
        1_200.0,
        "s",
        0,
        86_400,
    )


@dataclass(frozen=True, slots=True)
class ContentConfig:
    """[content]: the files of groups."""

    maximum_mb: int = _setting(
        1_000, "space for local files; files that are not pinned are evicted, least recently used first", 4_000, "MB", 1
    )
    lan: bool = _setting(False, "exchange files with devices on the local network, found by mDNS", True)
    lan_listen: str = _setting(
        "",
        "address and port of the file server (default: any; it answers private networks only)",
        "192.168.1.7:7480",
    )
    lan_peers: tuple[str, ...] = _setting(
        (),
        "further devices to fetch files from, where mDNS does not work",
        ("10.0.7.2:7480",),
        "addresses with ports",
        0,
        32,
    )
    store: str = _setting(
        "",
        "object store or folder shared by members: files offered here are copied there, and fetched from there",
        "s3://bucket/files",
    )


@dataclass(frozen=True, slots=True)
class MailboxConfig:
    """[mailbox]: keeping sealed envelopes for devices that sleep, and being woken by who keeps some."""

    serve: bool = _setting(False, "serve as a mailbox in groups where this device has the capability", True)
    maximum_mib: int = _setting(4_096, "maximum size of all envelopes that this mailbox stores", 512, "MiB", 1)
    wake: tuple[str, ...] = _setting(
        (),
        "how mailboxes wake this device: mqtt, program, or an https:// address",
        ("https://ntfy.sh/my-laptop",),
        "hooks, separated by commas unless written as TOML",
        0,
        WAKE_HOOKS,
        local=True,
    )
    wake_topics: bool = _setting(
        False, "as a mailbox: publish to covey/1/wake/NAME for devices that ask to be woken by mqtt", True, local=True
    )
    wake_webhooks: tuple[str, ...] = _setting(
        (),
        "as a mailbox: URL prefixes allowed for webhooks of devices; each ends with a slash",
        ("https://ntfy.sh/",),
        "addresses, separated by commas unless written as TOML",
        0,
        16,
        local=True,
    )
    wake_program: tuple[str, ...] = _setting(
        (),
        "as a mailbox: program (absolute path) and arguments that wake a device; its key is added last",
        ("/usr/local/bin/wake-on-lan",),
        "words, separated by commas unless written as TOML",
        0,
        32,
        local=True,
    )


@dataclass(frozen=True, slots=True)
class Config:
    """Every setting."""

    label: str = _setting(
        "", "a name for people, shown next to the device's own name", "greenhouse", "", high=MAXIMUM_LABEL_BYTES
    )
    relay: RelayConfig = field(default_factory=RelayConfig)
    link: LinkConfig = field(default_factory=LinkConfig)
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
    "link": LinkConfig,
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
