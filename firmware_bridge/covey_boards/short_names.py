"""Firmware with short private names: a board keeps every name that it loads on its heap, parameters among them.

A name takes its letters and six bytes, and MicroPython doubles the table of names when it is full: with the names of
people, the whole firmware fills two kilobytes with letters, and passes the 620th name, which costs four more.

1. What begins with one underscore, a constant, function or attribute, is renamed the same in all files: to a word that
   every port has in its flash, and that means nothing else there, as long as there are any; then to one or two letters.
   A constant (`_X = const(...)`) takes letters: it is compiled away, as long as it begins with an underscore.
2. A name that one file alone has shares its short one with those of other files. So no class may inherit from one of
   another file; `tests/unit/covey_boards/test_short_names.py` looks.
3. A parameter is private if nothing but its function can mean it: no call of any file names it, it is neither a
   constructor's, which settings name, nor has a default in a public function, and its file has no other use for it.
4. Public names, text, comments and lines stay: a reader of a board's file finds the place in the source.
"""

from __future__ import annotations

import ast
import builtins
import io
import re
import string
import tokenize
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


_IN_FLASH = """
abs all any append bytecode callable chr classmethod clear close copy count dir divmod end endswith eval exec
extend find format get globals hash id index insert isalpha isdigit islower isspace issubclass isupper items
iter join key keys little locals lower lstrip map next open ord pop popitem pow print read readinto readline
remove replace repr reverse rfind rindex round rsplit rstrip send sep set setdefault sort sorted split start
startswith staticmethod step stop strip sum throw update upper values write zip array binascii calcsize
collect collections crc32 deque disable dumps enable gc hexlify ilistdir implementation isenabled json listdir
load loads mem_alloc mem_free mkdir modify namedtuple os pack path platform poll register rename rmdir select
sleep sleep_ms sleep_us stat statvfs struct sys threshold ticks_add ticks_cpu ticks_diff ticks_ms ticks_us
time unhexlify unpack unregister urandom version
"""
_WORDS = _IN_FLASH.split()
"""Those of `static_qstr_list` in MicroPython's py/makeqstrdata.py, which the format of `.mpy` files implies, that are
no type's and nothing that an exception has; then names of modules that the firmware needs anyway, and in them."""

_CONSTANT = re.compile(r"^(_\w+) = const\(", re.MULTILINE)


def shortened(sources: Mapping[str, str]) -> dict[str, str]:
    """Return Python sources by file name, with short private names."""
    private = {name: _private_names(source) for name, source in sources.items()}
    files = Counter(each for names in private.values() for each in names)
    used = {name: _used(source) for name, source in sources.items()}
    everywhere = set().union(*used.values())
    constants = {each for source in sources.values() for each in _CONSTANT.findall(source)}
    words = [word for word in _WORDS if word not in everywhere]
    shared = _named(sorted(each for each in files if files[each] > 1), constants, words, set())
    trees = {name: ast.parse(source) for name, source in sources.items()}
    named = {each for tree in trees.values() for each in _named_in_calls(tree)}
    result = {}
    for name, source in sources.items():
        wanted = sorted(private[name] - shared.keys()) + sorted(_private_parameters(trees[name]) - named)
        taken = {shared[each] for each in private[name] & shared.keys()}
        free = [word for word in _WORDS if word not in used[name] and word not in shared.values()]
        result[name] = _renamed(source, shared | _named(wanted, constants, free, taken))
    return result


def _named(wanted: list[str], constants: set[str], words: list[str], taken: set[str]) -> dict[str, str]:
    endings = (each for each in _short_names() if each not in taken)
    free = iter(words)
    return {each: next(endings) if each in constants else next(free, None) or next(endings) for each in wanted}


def _used(source: str) -> set[str]:
    return set(re.findall(r"\w+", source))


def _short_names() -> Iterator[str]:
    endings = [""]
    while True:
        endings = [first + ending for ending in endings for first in string.ascii_letters]
        yield from [f"_{ending}" for ending in endings]


def _private_names(source: str) -> set[str]:
    found: set[str] = set()
    named_by_port: set[str] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NAME and token.string.strip("_") and token.string[0] == "_" != token.string[1]:
            found.add(token.string)
            if token.line.lstrip().startswith(f"import {token.string}"):
                named_by_port.add(token.string)
    return found - named_by_port


def _named_in_calls(tree: ast.AST) -> set[str]:
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    return {keyword.arg for call in calls for keyword in call.keywords if keyword.arg}


def _private_parameters(tree: ast.Module) -> set[str]:
    """Rule 3, as far as one file tells."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    parameters = {argument.arg for function in functions for argument in function.args.args}
    public = {argument.arg for function in functions for argument in _public_parameters(function)}
    return parameters - public - _not_local(tree) - set(dir(builtins)) - {"self"}


def _public_parameters(function: ast.FunctionDef) -> list[ast.arg]:
    arguments = function.args.args
    if function.name == "__init__":
        return arguments
    return [] if function.name.startswith("_") else arguments[len(arguments) - len(function.args.defaults) :]


def _not_local(tree: ast.Module) -> set[str]:
    """Return attributes and whatever modules and classes define, import or use outside of functions."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.alias):
            found.add(node.asname or node.name)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.update(node.module.split("."))
        elif isinstance(node, ast.Global):
            found.update(node.names)
    outside: list[ast.AST] = [tree]
    while outside:
        node = outside.pop()
        if isinstance(node, ast.Name):
            found.add(node.id)
        if isinstance(node, ast.FunctionDef | ast.Lambda):
            continue
        outside += ast.iter_child_nodes(node)
    return found


def _renamed(source: str, names: Mapping[str, str]) -> str:
    lines = source.splitlines(keepends=True)
    tokens = [token for token in tokenize.generate_tokens(io.StringIO(source).readline) if token.type == tokenize.NAME]
    for token in reversed(tokens):
        if token.string in names:
            (row, start), (_, end) = token.start, token.end
            line = lines[row - 1]
            lines[row - 1] = line[:start] + names[token.string] + line[end:]
    return "".join(lines)
