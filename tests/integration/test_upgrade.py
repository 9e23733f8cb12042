"""To an invented 0.2.0 and back, in a Debian of its own, with readings that wait and notes that stay.

Nothing but the version and the tables differs: 0.2.0 has one step of the schema more. If that is additive, the version
before goes on with the state; otherwise it refuses, and changes nothing.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from covey.adapters.sqlite.migrations import ADDITIVE, newest_schema
from deb.__main__ import build
from tests.integration.debian_root import DebianRoot, missing_for_root, need
from tests.integration.test_debian_package import _AS_AGENT, _NEEDS

pytestmark = [pytest.mark.processes, pytest.mark.slow]

_SCHEMA = "usr/lib/covey/covey/adapters/sqlite/schema"
_NEXT = newest_schema() + 1
_COLUMN = "ALTER TABLE device ADD COLUMN invented INTEGER;\n"


@pytest.fixture(scope="module")
def next_version(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Make a package 0.2.0 with one step of the schema more."""
    folder = tmp_path_factory.mktemp("next")
    built, tree = build(folder, "0.2.0"), folder / "tree"
    subprocess.run(["dpkg-deb", "--raw-extract", str(built), str(tree)], check=True)

    def with_step(step: str) -> Path:
        (tree / _SCHEMA / f"{_NEXT:03}_invented.sql").write_text(step, encoding="utf-8")
        packed = folder / "next.deb"
        subprocess.run(["dpkg-deb", "--root-owner-group", "-Znone", "--build", str(tree), str(packed)], check=True)
        return packed

    return with_step


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory, debian_package: Path) -> Iterator[DebianRoot]:
    """A Debian with this version, and a device on it with something of each kind: to be copied."""
    need(missing_for_root(_NEEDS))
    made = DebianRoot(tmp_path_factory.mktemp("prepared") / "root", _NEEDS)
    made.dpkg("--install", str(debian_package))
    made.run(*_AS_AGENT, "init", "--label", "shed")
    made.run(*_AS_AGENT, "relay", "set", "mqtt://127.0.0.1:9")
    made.run(*_AS_AGENT, "group", "create", "--capability", "collector")
    model = made.path / "var/lib/covey/model"
    model.write_text("a model", encoding="utf-8")
    model.chmod(0o644)
    made.run(*_AS_AGENT, "file", "put", "/var/lib/covey/model")
    model.unlink()
    _add(made, "before")
    yield made
    shutil.rmtree(made.path)


@pytest.fixture
def root(tmp_path: Path, prepared: DebianRoot) -> Iterator[DebianRoot]:
    copy = prepared.copied(tmp_path / "root")
    yield copy
    shutil.rmtree(copy.path)


def _add(root: DebianRoot, note: str) -> None:
    root.run(*_AS_AGENT, "publish", "-", feed=f'{{"n":"level","vs":"{note}"}}\n')
    root.run(*_AS_AGENT, "history", "post", note)


def _json(root: DebianRoot, *words: str) -> Any:
    return json.loads(root.run(*_AS_AGENT, *words, "--json").stdout)


def _kept(root: DebianRoot) -> tuple[object, ...]:
    """Return what must not change: who the device is, its groups, its history, settings and files."""
    history = root.run(*_AS_AGENT, "history", "log", "--json").stdout
    return (
        _json(root, "key", "show"),
        _json(root, "group", "show"),
        history,
        _json(root, "relay"),
        _content(root),
        _json(root, "status")["outbox"]["messages"],
    )


def _content(root: DebianRoot) -> str:
    got = root.path / "var/lib/covey/got"
    got.unlink(missing_ok=True)
    root.run(*_AS_AGENT, "file", "get", "model", "-o", "/var/lib/covey/got")
    return got.read_text(encoding="utf-8")


def _schema(root: DebianRoot) -> int:
    with sqlite3.connect(root.path / "var/lib/covey/state.sqlite") as connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
    connection.close()
    return int(version)


def test_an_upgrade_that_only_adds_can_be_taken_back(
    root: DebianRoot, debian_package: Path, next_version: Callable[[str], Path]
) -> None:
    newer = next_version(f"{ADDITIVE}\n{_COLUMN}")
    before = _kept(root)
    root.dpkg("--install", str(newer))
    assert root.run("covey", "--version").stdout == "covey 0.2.0\n"
    assert _schema(root) == _NEXT
    assert _kept(root) == before
    _add(root, "meanwhile")
    meanwhile = _kept(root)
    root.dpkg("--install", str(debian_package))
    assert root.run("covey", "--version").stdout == "covey 0.1.0\n"
    assert _kept(root) == meanwhile
    _add(root, "after")
    assert _json(root, "status")["outbox"]["messages"] == 3
    root.dpkg("--install", str(newer))
    notes = root.run(*_AS_AGENT, "history", "log", "--type", "note").stdout
    assert all(note in notes for note in ("before", "meanwhile", "after"))
    assert _json(root, "status")["outbox"]["messages"] == 3


def test_a_version_that_cannot_read_the_new_tables_refuses_and_changes_nothing(
    root: DebianRoot, debian_package: Path, next_version: Callable[[str], Path]
) -> None:
    newer = next_version(_COLUMN)
    root.dpkg("--install", str(newer))
    _add(root, "meanwhile")
    meanwhile = _kept(root)
    done = root.dpkg("--install", str(debian_package))
    assert "a newer Covey wrote the state" in done.stderr
    refused = root.run(*_AS_AGENT, "status", code=78)
    assert "hint: upgrade Covey" in refused.stderr
    assert _schema(root) == _NEXT
    root.dpkg("--install", str(newer))
    assert _kept(root) == meanwhile
