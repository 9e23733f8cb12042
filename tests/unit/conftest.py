from __future__ import annotations

from pathlib import Path

import pytest

from tests.fleet import Device, Make


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Return what makes devices whose states are in the test's folder."""
    return lambda name, **options: Device(name, tmp_path, **options)
