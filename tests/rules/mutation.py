"""Making a mistake in the product's code, in a process of its own, and running a test that has to notice it.

The mistake is a piece of a source's text that becomes another one. The process is a fork of this one: it exchanges the
code of the functions that the piece stands in, runs pytest, and ends. What is loaded already stays as it is, so a
mistake in what a module does when it is loaded cannot be made.
"""

from __future__ import annotations

import functools
import gc
import os
import sys
import traceback
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import pytest

import covey
from tests.proof import begins

_SOURCES = Path(covey.__file__).parent


class Mutant(NamedTuple):
    """One mistake, as `mutants.toml` has it."""

    rule: str
    file: str
    before: str
    after: str
    test: str


def mistaken(mutant: Mutant) -> CodeType:
    """Return the code of a module as a mistake would have it."""
    path = _SOURCES / mutant.file
    source = path.read_text()
    assert source.count(mutant.before) == 1, f"{mutant.file} has {mutant.before!r} {source.count(mutant.before)} times"
    return compile(source.replace(mutant.before, mutant.after), str(path), "exec", dont_inherit=True)


def make(mutant: Mutant) -> None:
    """Exchange the code of what a module has."""
    name = ".".join(("covey", *Path(mutant.file).with_suffix("").parts))
    exchanged = list(_exchange(mistaken(mutant), vars(import_module(name))))
    assert exchanged, f"{mutant.file}: there is no function around {mutant.before!r}"


def _exchange(code: CodeType, names: dict[str, Any]) -> Iterator[str]:
    for part in code.co_consts:
        if not isinstance(part, CodeType):
            continue
        found = names.get(part.co_name)
        if isinstance(found, type):
            yield from _exchange(part, dict(vars(found)))
        elif (function := _function(found)) is not None and _differs(part, function.__code__):
            function.__code__ = part
            yield part.co_qualname


def _function(found: object) -> FunctionType | None:
    """Return the function that stands behind what a name is bound to."""
    if isinstance(found, property):
        return _function(found.fget)
    if isinstance(found, functools.cached_property):
        return _function(found.func)
    if isinstance(found, staticmethod | classmethod):
        return _function(found.__func__)
    wrapped = getattr(found, "__wrapped__", None)
    if wrapped is not None:
        return _function(wrapped)
    return found if isinstance(found, FunctionType) else None


def _differs(one: CodeType, other: CodeType) -> bool:
    """Say whether two functions do different things, wherever they stand in their files."""
    if (one.co_code, one.co_names, len(one.co_consts)) != (other.co_code, other.co_names, len(other.co_consts)):
        return True
    pairs = zip(one.co_consts, other.co_consts, strict=True)
    return any(_differs(*pair) if isinstance(pair[0], CodeType) else pair[0] != pair[1] for pair in pairs)


def run(mutant: Mutant | None, *words: str, log: Path) -> int:
    """Run pytest in a fork of this process, with a mistake or without one; return its exit code."""
    begins()
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = 99
    try:
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for each in (1, 2):
            os.dup2(descriptor, each)
        sys.stdout, sys.stderr = (open(each, "w", buffering=1, closefd=False) for each in (1, 2))  # noqa: SIM115
        if mutant is not None:
            make(mutant)
        # A process that ends has no need to look for garbage, five times and among all that its parent has loaded, and
        # nobody reads how the test failed: half of what this process would take.
        gc.collect = lambda *_: 0
        unneeded = [word for name in ("cacheprovider", "xdist", "unraisableexception") for word in ("-p", f"no:{name}")]
        options = ["-x", "--tb=native", *unneeded, "--timeout", "100"]
        code = int(pytest.main([*options, *words]))
    except BaseException:  # noqa: BLE001 - whatever it is, this process is to end here
        traceback.print_exc()
    finally:
        os._exit(code)
