"""The parent of one program that an action runs, in a process of its own: no process of the program outlives it.

Run by its path, with `python -I -S`, so it imports nothing of Covey's. Of the standard library it imports what needs no
other module, because that takes longer than most programs run. Arguments: the agent's process id, bytes of address
space, seconds of processor time, bytes of a file, processes, then the program and its arguments; below 0 there is no
such bound.

1. It is asked to end (SIGTERM) by the agent, or by the kernel when the agent is gone, however that ended.
2. What the program leaves behind becomes its child (`PR_SET_CHILD_SUBREAPER`), even in a session of its own. When the
   program has ended, or when it is asked to end, it kills all of that, then ends as the program did.
3. Limits hold before the program begins, and of all processes the kernel takes these first when memory runs out.
   That of processes is of the user's, beyond those that it has then; root has none, but for its unit's `TasksMax`.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found] # the module around it makes enumerations of its numbers
import os
import resource
import sys

ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "HOME": "/"}
"""The variables of a guarded program; it gets none of the agent's."""

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_NOT_RUN = 126
_WANTED = {signal.SIGTERM, signal.SIGCHLD}


def command() -> tuple[str, ...]:
    """Return how the command line of a guard begins; its arguments follow."""
    return (sys.executable, "-I", "-S", __file__)


def run(agent: int, limits: tuple[int, int, int, int], argv: list[str]) -> int:
    """Run a program to its end; return the code to exit with, or below 0 the signal that ended it."""
    import _ctypes  # the agent, which starts this by its path, spares 0.2 MiB

    signal.pthread_sigmask(signal.SIG_BLOCK, _WANTED)
    prctl = _ctypes.dlsym(_ctypes.dlopen(None, 0), "prctl")  # type: ignore[arg-type] # it is what `ctypes.CDLL(None)` gives it
    _ctypes.call_function(prctl, (_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0))
    _ctypes.call_function(prctl, (_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
    if os.getppid() != agent:  # it was gone before the kernel knew whom to tell
        return _NOT_RUN
    program = os.fork()
    if program == 0:
        _become(*limits, argv)
    while signal.sigwaitinfo(_WANTED).si_signo != signal.SIGTERM and not _ended(program):
        continue
    return _killed_all(program)


def _become(memory_bytes: int, processor_seconds: int, file_bytes: int, processes: int, argv: list[str]) -> None:
    try:
        os.setsid()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _WANTED)
        _limit(resource.RLIMIT_CORE, 0)
        _limit(resource.RLIMIT_CPU, processor_seconds)
        _limit(resource.RLIMIT_FSIZE, file_bytes)
        if processes >= 0 and os.getuid():
            _limit(resource.RLIMIT_NPROC, processes + _running(os.getuid()))
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:  # noqa: PTH123 - before a limit, no pathlib
            file.write("1000")
        _limit(resource.RLIMIT_AS, memory_bytes)
        os.execv(argv[0], argv)  # noqa: S606 - that there is no shell is what is wanted
    except (OSError, ValueError) as error:
        os.write(1, f"cannot be started: {error}\n".encode())
    os._exit(_NOT_RUN)


def _limit(kind: int, most: int) -> None:
    """Set a limit, unless it is negative, or a lower one applies already, which only root may raise."""
    _, hard = resource.getrlimit(kind)
    if most >= 0 and (hard == resource.RLIM_INFINITY or most < hard):
        resource.setrlimit(kind, (most, most))


def _ended(program: int) -> bool:
    """Reap other ended children; return whether the program has ended, which is not reaped, so that its pid stays
    reserved."""
    while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
        if ended.si_pid == program:
            return True
        os.waitpid(ended.si_pid, 0)
    return False


def _killed_all(program: int) -> int:
    """Kill all that remains, including orphans of children; return how the program ended."""
    code: int = -signal.SIGKILL
    try:  # noqa: SIM105 - it would import a module
        os.killpg(program, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
    while True:
        try:
            ended, status = os.waitpid(-1, os.WNOHANG)
            if not ended:
                _kill_children()
                ended, status = os.waitpid(-1, 0)
        except ChildProcessError:
            return code
        if ended == program:
            code = os.waitstatus_to_exitcode(status)


def _kill_children() -> None:
    own = str(os.getpid())
    for name in os.listdir("/proc"):  # noqa: PTH208 - as above
        if not name.isdecimal():
            continue
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
                parent = file.read().rpartition(")")[2].split()[1]
            if parent == own:
                os.kill(int(name), signal.SIGKILL)
        except OSError:
            continue


def _running(user: int) -> int:
    found = 0
    for name in os.listdir("/proc"):  # noqa: PTH208 - as above
        if name.isdecimal():
            try:
                found += len(os.listdir(f"/proc/{name}/task")) if os.stat(f"/proc/{name}").st_uid == user else 0  # noqa: PTH116, PTH208
            except OSError:
                continue
    return found


if __name__ == "__main__":
    agent, memory, seconds, size, processes = map(int, sys.argv[1:6])
    code = run(agent, (memory, seconds, size, processes), sys.argv[6:])
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _WANTED)
        if -code not in {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code & 255)
