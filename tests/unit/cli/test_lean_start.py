"""Classes that `covey.cli.lean_start` makes do what those of the standard library do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_AGENT = Path(__file__).parents[3] / "agent"

_CLASSES = '''
import copy, dataclasses, gc, pickle, sys, weakref
from dataclasses import dataclass, field

@dataclass(frozen=True, slots=True)
class Place:
    """Has a docstring."""
    name: str
    x: int = 0
    note: str = field(default="", compare=False)
    hidden: str = field(default="", repr=False)
    seen: int = field(default=0, hash=False)

@dataclass(frozen=True, slots=True)
class Nothing: pass

@dataclass(frozen=True, slots=True)
class Single:
    value: object

@dataclass(frozen=True, slots=True)
class Farther(Place):
    far: tuple = ()
    @property
    def twice(self): return 2 * self.x

@dataclass(frozen=True, slots=True, kw_only=True)
class Named: value: int

@dataclass(frozen=True, slots=True)
class OwnRepr:
    value: int
    def __repr__(self): return "own"

@dataclass(frozen=True, slots=True, order=True)
class Ordered: value: int

@dataclass
class Loose: value: int

class Plain(Place): pass

def tried(act):
    try: return act()
    except Exception as error: return f"{type(error).__name__}: {error}"

def set_name(record): record.name = "b"
def delete_name(record): del record.name

a, b = Place("a", 1, "here", "h", 3), Place("a", 1, "there", "h", 3)
shown = [
    repr(a), a == b, a == Place("a", 1, "here", "h", 4), a != Place("b"), a == 1, hash(a) == hash(b),
    hash(a) == hash(Place("a", 1, "", "h", 9)), {a: 1}[b],
    Nothing(), Nothing() == Nothing(), hash(Nothing()) == hash(Nothing()),
    Single(3), Single(3) == Single(3), Single([]) == Single([]), Single(1) == Single(2),
    tried(lambda: hash(Single([]))),
    Farther("a", far=(1,)), Farther("a") == Place("a"), Farther("a", 4).twice, Farther("a") == Farther("a"),
    Named(value=2), OwnRepr(1), OwnRepr(1) == OwnRepr(1), Ordered(1) < Ordered(2), Loose(1), Loose(1) == Loose(1),
    tried(lambda: set_name(a)), tried(lambda: delete_name(a)),
    tried(lambda: set_name(Plain("p"))),
    tried(lambda: Place()), tried(lambda: Place("a", nothing=1)),
    dataclasses.asdict(a), dataclasses.replace(a, x=5), [each.name for each in dataclasses.fields(Farther)],
    pickle.loads(pickle.dumps(a)) == a, copy.copy(a) == a, Place.__match_args__, Place.__doc__, hasattr(a, "__dict__"),
    str(Place.__dataclass_params__), tried(lambda: weakref.ref(a)),
]
holder = []
looped = Single(holder)
holder.append(looped)
shown.append(looped)
for each in shown: print(repr(each))
'''

_LOADED = """
import covey.cli.lean_start, covey.core.wire.message, gc, sys
from covey.core.telemetry.reading import Reading
gc.collect()
assert not {"ast", "dis"} & sys.modules.keys(), "inspect is loaded"
assert sum(isinstance(each, type) and each.__name__ == "Reading" for each in gc.get_objects()) == 1, "made from another"
class MayHaveMore(Reading): pass
more = MayHaveMore("n", "u", None, 1.0)
more.extra = 2
assert more.extra == 2
import inspect
assert list(inspect.signature(Reading).parameters) == ["name", "unit", "time_us", "value"]
assert "ast" in sys.modules
"""


def _run(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=_AGENT, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.processes
def test_records_do_what_those_of_the_library_do() -> None:
    assert _run("import covey.cli.lean_start\n" + _CLASSES).splitlines() == _run(_CLASSES).splitlines()


@pytest.mark.processes
@pytest.mark.skipif(sys.version_info >= (3, 13), reason="dataclasses asks inspect for annotations since 3.13")
def test_inspect_waits_until_it_is_used_and_no_class_is_kept_twice() -> None:
    _run(_LOADED)
