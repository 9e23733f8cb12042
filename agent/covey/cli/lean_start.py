"""Save 3 MiB of an agent's memory, and a fifth of its start, before the rest of Covey loads.

1. `inspect` loads when a program first uses it. `dataclasses` imports it, and with it `ast` and `dis`, to write the
   signature of a class into its docstring where it has none: 0.8 MiB.
2. Frozen dataclasses with slots share their methods. The standard library writes, compiles and keeps six functions for
   each class, about 8 KiB. Here each class keeps only its `__init__`; the others do the same for all classes.
3. The standard library makes a dataclass with slots from the class as written. Up to Python 3.13 it then keeps the
   latter in memory, because it copies the descriptor `__weakref__` (python/cpython#135228): 3 KiB for each class.

4. `argparse` finds no translations. It looks for files with them for each heading, and would say "usage" in another
   language than Covey says the rest; `gettext` and `locale`, which it loads for that, take 0.3 MiB.

Only `covey.cli.main` imports this module. A program that imports Covey as a library keeps Python as it is.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _LoadedWhenUsed(ModuleType):
    """Stands for a module until a program uses it. (`importlib.util.LazyLoader` loads at the next `import`.)"""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # `import` itself reads these
            raise AttributeError(name)
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        value = getattr(import_module(self.__name__), name)
        setattr(self, name, value)
        return value


sys.modules.setdefault("inspect", _LoadedWhenUsed("inspect"))
if "argparse" not in sys.modules:
    untranslated: Any = ModuleType("gettext")
    untranslated.gettext = lambda text: text
    untranslated.ngettext = lambda one, more, count: one if count == 1 else more
    sys.modules["gettext"] = untranslated
    import argparse  # noqa: F401

    del sys.modules["gettext"]

import dataclasses  # noqa: E402 - it imports inspect
from operator import attrgetter  # noqa: E402
from reprlib import recursive_repr  # noqa: E402

_of_library = dataclasses.dataclass
_SHARING = {"frozen": True, "slots": True}
_SHARED = {"__repr__", "__eq__", "__hash__", "__setattr__", "__delattr__"}


def _dataclass(cls: Any = None, /, **settings: Any) -> Any:
    """Return what `dataclasses.dataclass` returns, with shared methods where they have the same effect."""
    if cls is None:
        return lambda cls: _dataclass(cls, **settings)
    if cls.__doc__ is None:
        cls.__doc__ = cls.__name__
    shares = settings == _SHARING and _SHARED.isdisjoint(cls.__dict__)
    made = _of_library(cls, **settings, **({"repr": False, "eq": False} if shares else {}))
    if shares:
        _share_methods(made)
    descriptor = made.__dict__.get("__weakref__")
    if made is not cls and descriptor is not None and descriptor.__objclass__ is cls:
        del made.__weakref__
    return made


def _share_methods(cls: Any) -> None:
    cls.__dataclass_params__.repr = cls.__dataclass_params__.eq = True
    fields = dataclasses.fields(cls)
    cls.__shown__ = tuple(field.name for field in fields if field.repr)
    cls.__compared__ = _values_of([field.name for field in fields if field.compare])
    cls.__hashed__ = _values_of(
        [field.name for field in fields if (field.compare if field.hash is None else field.hash)]
    )
    cls.__repr__, cls.__eq__, cls.__hash__ = _repr, _eq, _hash
    cls.__setattr__, cls.__delattr__ = _set, _delete


def _values_of(names: list[str]) -> Any:
    """Return a function that returns the values of these fields as a tuple."""
    if not names:
        return staticmethod(lambda _record: ())
    return attrgetter(*names) if len(names) > 1 else attrgetter(*names, *names)  # of one name it gives no tuple


@recursive_repr()
def _repr(self: Any) -> str:
    shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__shown__)
    return f"{type(self).__qualname__}({shown})"


def _eq(self: Any, other: Any) -> Any:
    if type(other) is not type(self):
        return NotImplemented
    return self.__compared__(self) == self.__compared__(other)


def _hash(self: Any) -> int:
    return hash(self.__hashed__(self))


def _set(self: Any, name: str, value: Any) -> None:
    if _is_frozen(self, name):
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
    object.__setattr__(self, name, value)


def _delete(self: Any, name: str) -> None:
    if _is_frozen(self, name):
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
    object.__delattr__(self, name)


def _is_frozen(self: Any, name: str) -> bool:
    """Whether this attribute is frozen; a subclass that is not a dataclass may have attributes of its own."""
    return "__dataclass_fields__" in type(self).__dict__ or name in self.__dataclass_fields__


dataclasses.dataclass = _dataclass
