"""`./dev bench [NAME ...]`: run the benchmarks, one after another."""

from __future__ import annotations

import argparse
from importlib import import_module

_BENCHES = {
    "throughput": "readings/s and bytes on the wire, against paho with JSON",
    "ingest": "readings/s from a vault into Spark, against Spark's own JSON and Parquet sources",
    "manifests": "size and accept time of group manifests; a merge against a perfect broadcast",
    "footprint": "start, import time and memory of the agent, against paho alone",
}


def main() -> None:
    """Run the named benchmarks, or all."""
    parser = argparse.ArgumentParser(
        prog="./dev bench",
        description="\n".join(f"{name:<12} {what}" for name, what in _BENCHES.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", choices=[*_BENCHES, []], metavar="NAME", help="default: all")
    for name in parser.parse_args().names or _BENCHES:
        print(f"\n== {name}: {_BENCHES[name]}", flush=True)
        import_module(f"bench.{name}").main()


if __name__ == "__main__":
    main()
