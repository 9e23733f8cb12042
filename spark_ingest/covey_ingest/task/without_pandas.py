"""Import this first in a process that needs no pandas: whatever asks for it afterwards is told that it is not there.

PyArrow's datasets load it where it is installed, in each worker of the local engine: 45 MB and half a second. They do
without it as well. Nothing here gives or takes its tables.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder


class _NoPandas(MetaPathFinder):
    def find_spec(self, fullname: str, path: Sequence[str] | None, target: object = None) -> None:  # noqa: ARG002
        """Find nothing, and let nobody else look for pandas."""
        if fullname == "pandas":
            raise ModuleNotFoundError("a worker of the local engine needs no pandas", name=fullname)


sys.meta_path.insert(0, _NoPandas())
