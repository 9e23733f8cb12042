"""What is said where files cannot be moved."""

from __future__ import annotations

import sys

import pytest

from covey.adapters.content_files import need_content_package
from covey.errors import MissingPackageError


def test_who_lacks_the_hash_is_told_what_to_install_and_no_package_that_debian_has_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    need_content_package()
    monkeypatch.setitem(sys.modules, "blake3", None)
    with pytest.raises(MissingPackageError) as raised:
        need_content_package()
    assert "pip install blake3" in raised.value.hint
    assert "apt" not in raised.value.hint
