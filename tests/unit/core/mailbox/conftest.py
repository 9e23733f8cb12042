from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mailbox_fleet import MailboxFleet


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[MailboxFleet]:
    """Yield members of a group with mailboxes, whose states are in the test's folder."""
    found = MailboxFleet(tmp_path)
    found.carry()
    yield found
    for device in found.devices.values():
        device.stop()
