"""Which files a board gets."""

from __future__ import annotations

from pathlib import Path

from covey_boards.flash import firmware

SHARED = Path(__file__).resolve().parents[2] / "firmware_bridge" / "covey_boards" / "shared"
DEVICE = SHARED.parent / "device"


def board_modules() -> list[Path]:
    """Return the shared modules that boards get; what imports PyNaCl stays on the host."""
    return sorted(path for path in SHARED.glob("*.py") if path.stem not in ("__init__", "tweetnacl_sodium"))


def device_modules() -> list[Path]:
    """Return the firmware's own modules; `main.py`, which starts them, stays source."""
    return sorted(path for path in DEVICE.glob("*.py") if path.stem not in ("__init__", "main"))


def sources() -> dict[str, bytes]:
    """Return the firmware as source, by file name."""
    return {path.name: path.read_bytes() for path in (*board_modules(), *device_modules())}


def written(folder: Path) -> list[Path]:
    """Write the firmware's modules into a folder, as `covey mcu flash` writes them onto a board."""
    paths = []
    for name, source in firmware().items():
        if name != "main.py":
            paths.append(folder / name)
            paths[-1].write_bytes(source)
    return paths
