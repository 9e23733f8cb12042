"""`covey ingest views`: print the script that makes views over the tables, for DuckDB or Spark."""

from __future__ import annotations

from importlib.util import find_spec

from covey.config.ingest_options import views_parser
from covey.errors import MissingPackageError


def main(words: list[str]) -> int:
    """Print it.

    Raises:
        CoveyError: there is none to give.
    """
    options = views_parser().parse_args(words)
    if find_spec("duckdb") is None:
        raise MissingPackageError("what looks into tables", "duckdb", in_debian=False)
    from covey_ingest.views import Engine, views

    print(views(options.tables, Engine(options.engine)), end="")
    return 0
