"""What a process has loaded, seen from a process: heavy packages stay where they belong."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.meta.source_tree import ROOT, sources
from tests.waiting import GUARD_S

pytestmark = pytest.mark.processes

_SPARK_SIDE = ("pyspark", "numpy", "pyarrow", "pandas", "deltalake", "py4j")
_HEAVY = (*_SPARK_SIDE, "paho", "nacl", "sqlite3", "psutil", "cbor2", "ssl", "asyncio", "rich", "hypothesis")


def _loaded_after(*statements: str) -> set[str]:
    """Run statements in a fresh interpreter and return the names of all modules it then has."""
    code = "\n".join([*statements, "import sys, json", "print(json.dumps(sorted(sys.modules)), file=sys.stderr)"])
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=GUARD_S, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stderr.splitlines()[-1]))


def test_the_agent_never_loads_the_spark_side() -> None:
    modules = [source.module for source in sources("agent") if not source.module.startswith("covey.cli.")]
    loaded = _loaded_after(*(f"import {module}" for module in modules))
    assert loaded.isdisjoint(_SPARK_SIDE)


def test_the_relay_loads_no_other_client() -> None:
    assert _loaded_after("import covey.adapters.mqtt.relay").isdisjoint({"http.client", "email", "urllib.request"})


def test_a_relays_name_in_ascii_loads_no_tables_of_international_names() -> None:
    loaded = _loaded_after(
        "import contextlib, ssl",
        "from covey.adapters.mqtt.lean_paho import host, paho",
        "client = paho.Client(paho.CallbackAPIVersion.VERSION2)",
        "with contextlib.suppress(OSError): client.connect(host('127.0.0.1'), 9)",
        "tls = ssl.create_default_context()",
        "tls.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname=host('relay.example'))",
        "assert host('b\u00fccher.example') == 'b\u00fccher.example'",
    )
    assert loaded.isdisjoint({"encodings.idna", "stringprep"})


def test_pairing_libraries_load_when_a_ceremony_begins() -> None:
    modules = [source.module for source in sources("agent")]
    assert _loaded_after(*(f"import {module}" for module in modules)).isdisjoint({"spake2", "mnemonic", "segno"})


def test_an_agent_that_has_to_do_with_no_mailbox_loads_nothing_of_it() -> None:
    parts = (
        *("core.node", "app.agent.daemon", "app.loop.runtime", "app.loop.relay_loop", "app.agent.roles"),
        "adapters.sqlite.store",
    )
    loaded = _loaded_after(*(f"import covey.{part}" for part in parts))
    assert {name for name in loaded if "mailbox" in name} <= {
        "covey.core.mailbox",  # a docstring
        "covey.core.mailbox.mailboxes",
        "covey.limits.mailbox",
    }


def test_an_agent_loads_no_compressors(tmp_path: Path) -> None:
    """They cost more than half a MiB, and come with `shutil`, which argparse would load by itself."""
    loaded = _loaded_after(
        "import covey.adapters.mqtt.relay, covey.app.agent.daemon, covey.app.loop.runtime",
        "import covey.app.orders.command_role",
        "from covey.cli.main import main",
        f"assert main(['run', '--state', {str(tmp_path / 'state')!r}]) == 78",
    )
    assert loaded.isdisjoint({"shutil", "lzma", "bz2"})


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="dataclasses asks inspect for annotations since 3.13")
def test_an_agent_that_samples_loads_no_parser_of_python_and_nothing_that_invites() -> None:
    loaded = _loaded_after(
        "import covey.cli.main, covey.cli.commands.run, covey.adapters.mqtt.relay, covey.app.loop.runtime",
        "import covey.app.orders.command_role, covey.app.loop.relay_loop, covey.app.loop.pairing_role",
        "from pathlib import Path",
        "from covey.adapters.sensors.host import HostSensors",
        "assert HostSensors(Path('/')).sample()",
    )
    unused = {"ast", "dis", "psutil", "decimal", "gettext", "subprocess", "logging", "traceback", "uuid"}
    unused |= {"covey.core.pairing.inviter", "covey.client", "http.client", "email", "ssl", "platform"}
    unused |= {"covey.core.link.thinning", "covey.core.telemetry.summaries", "covey.core.telemetry.decoding"}
    assert loaded.isdisjoint(unused), sorted(loaded & unused)


def test_the_commands_never_load_the_spark_side() -> None:
    modules = [source.module for source in sources("agent/covey/cli")]
    assert _loaded_after(*(f"import {module}" for module in modules)).isdisjoint(_SPARK_SIDE)


def test_a_spark_worker_does_not_load_pandas() -> None:
    assert "pandas" not in _loaded_after("import pyspark_covey, covey_ingest.spark.source")


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["message", "send", "--help"], ["nonsense"]])
def test_light_commands_load_nothing_heavy(arguments: list[str]) -> None:
    loaded = _loaded_after(
        "import contextlib, io",
        "from covey.cli.main import main",
        f"with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()): main({arguments!r})",
    )
    light = _HEAVY if arguments in (["--help"], ["--version"]) else ("psutil", *_SPARK_SIDE)
    assert loaded.isdisjoint(light), sorted(loaded.intersection(light))


def test_the_core_loads_neither_network_nor_database() -> None:
    modules = [source.module for source in sources("agent/covey/core")]
    loaded = _loaded_after(*(f"import {module}" for module in modules))
    assert loaded.isdisjoint({"paho", "psutil", "sqlite3", "ssl", "asyncio", *_SPARK_SIDE})


def test_the_client_of_the_local_api_is_light() -> None:
    loaded = _loaded_after("import covey.client")
    assert loaded.isdisjoint({*_HEAVY, "argparse", "http.client", "email"})
    ours = {name for name in loaded if name.startswith("covey")}
    assert ours == {"covey", "covey.client", "covey.client_calls", "covey.client_connection", "covey.errors"}
    assert "asyncio" not in loaded


def test_the_page_is_small_and_asks_nobody_else() -> None:
    """A telephone beside a field has it in a second; and it is there when the network behind the hub is not."""
    files = [path for path in (ROOT / "agent/covey/web").iterdir() if path.suffix != ".LICENSE"]
    assert sum(path.stat().st_size for path in files) <= 150_000
    foreign = re.compile(r"""(?:src|href|url|import|fetch)\s*[=(]?\s*["']?(?:https?:)?//""")
    assert [path.name for path in files if foreign.search(path.read_text(encoding="utf-8"))] == []
