"""The ingest across a rotation of vault keys: who is given the next ones, who is not, and who is given them late."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from covey.adapters.keys.vault_key_file import VaultKeyFile
from covey.app.telemetry.vault import new_reader
from covey.core.ids import NoisePublic
from covey.core.vault.key_file import VaultKeyReader
from covey_ingest.queries.report import make_report
from tests.outside.holdings import Kind
from tests.spark.fleet import NOW_US, Author, Collector
from tests.tables.ingesting import audited, copied, ingest, rotated


@pytest.mark.slow
def test_an_ingest_goes_on_across_rotations_or_says_what_it_lacks(tmp_path: Path) -> None:
    collector = Collector(tmp_path / "vault")
    device = Author(collector, 1)
    outside, removed = copied(collector, tmp_path / "outside.key"), copied(collector, tmp_path / "removed.key")
    file = VaultKeyFile(collector.key_file)
    reader = VaultKeyReader(NoisePublic(bytes.fromhex(new_reader(outside).public)))
    file.write(replace(file.read(), readers=(reader,)))
    readers = {
        name: (tmp_path / name, path)
        for name, path in (("own", collector.key_file), ("given", outside), ("not given", removed))
    }

    def take_in() -> dict[str, int]:
        """Run each ingest; return how many readings its tables hold, each once."""
        for tables, key_file in readers.values():
            ingest(collector.vault, tables, key_file=key_file)
        lacking = {"not given": [Kind.LOST]}
        return {
            name: audited(tables, collector, *lacking.get(name, []))[device.author]
            for name, (tables, _) in readers.items()
        }

    collector.land(device.measure(3))
    assert take_in() == {"own": 3, "given": 3, "not given": 3}
    for _ in range(2):
        rotated(collector)
        collector.land(device.measure(2))
    assert take_in() == {"own": 7, "given": 7, "not given": 3}
    report = make_report(str(readers["not given"][0]), NOW_US, None)
    assert [row["reason"] for row in report.sections["quarantine"]] == ["vault_key"]
    assert "covey vault new-reader" in str(report.sections["quarantine"])

    removed.unlink()
    copied(collector, removed)
    assert take_in() == {"own": 7, "given": 7, "not given": 7}
