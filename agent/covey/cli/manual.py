"""`python -m covey.cli.manual`: the manual page covey(1), drawn from the parsers and the settings."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from covey.cli.command_tree import Argument, Command, commands
from covey.cli.main import EXIT_CODES
from covey.config.settings import settings, toml_value

_INTRODUCTION = """\
Covey synchronises fleets of small devices through an MQTT broker that they need not trust, and stores their readings
in tables. A device encrypts each message for its recipients, and keeps it in the outbox until the recipient has stored
and acknowledged it. Commands that queue messages (\\fBmessage send\\fR, \\fBpublish\\fR) also work while the agent
(\\fBrun\\fR, \\fBcollect\\fR) does not run."""

_CONFIGURATION = """\
Read in this order; later files override earlier ones: \\fIconfig.toml\\fR in the state folder, which commands write,
and \\fIconf.d/*.toml\\fR next to it; for the state in \\fI/var/lib/covey\\fR also \\fI/etc/covey/config.toml\\fR and
\\fI/etc/covey/conf.d/*.toml\\fR; the environment. With \\fB\\-\\-config\\fR or \\fBCOVEY_CONFIG\\fR: that file and the
\\fIconf.d\\fR next to it. The agent reads these when it starts."""

_COMMON = {"--help", "--state", "--config", "--passphrase-file"}

_OPTIONS = (
    ("--state DIR", "the state folder; without it $COVEY_STATE, or the system's for root and for the user who owns it"),
    ("--config FILE", "the configuration; without it config.toml in the state folder"),
    ("--passphrase-file FILE", "a file with the passphrase of this device's key, mode 0600"),
    ("--json", "print JSON instead of text (most commands)"),
)

_ENVIRONMENT = (
    ("COVEY_STATE", "the state folder, where --state is not given"),
    ("COVEY_CONFIG", "the configuration file, where --config is not given"),
    ("COVEY_SECTION_KEY", "overrides a setting, e.g. COVEY_RELAY_URL; never for secrets"),
    ("CREDENTIALS_DIRECTORY", "set by systemd: folder of covey.relay-password (broker) and covey.passphrase (key)"),
    ("NOTIFY_SOCKET, WATCHDOG_USEC", "set by systemd, which the agent notifies of start, progress and end"),
)

_FILES = (
    ("/var/lib/covey", "the state of the machine's own agent (mode 0700); other users: ~/.local/state/covey"),
    ("identity.key", "this device's signing key; a backup of it must never run next to the original"),
    ("noise.keys", "the keys that decrypt messages to this device; a backup needs both"),
    ("state.sqlite", "outbox, inbox, groups"),
    ("relay.password", "this device's broker password"),
    ("relay.pem", "this device's certificate for the broker, with its key"),
    ("vault.key", "a collector's vault keys; the device's key opens them"),
)


def manual() -> str:
    """Return the page as roff(7)."""
    known = commands()
    lines = [
        '.TH COVEY 1 "" "Covey" "User Commands"',
        ".SH NAME",
        "covey \\- encrypted sync and telemetry for small devices",
    ]
    lines += [".SH SYNOPSIS", "\\fBcovey\\fR \\fICOMMAND\\fR [\\fIOPTION\\fR...]", ".SH DESCRIPTION", _INTRODUCTION]
    lines += [".SH COMMANDS"]
    for each in known:
        lines += _command(each)
    lines += _section("COMMON OPTIONS", _OPTIONS)
    lines += [".SH CONFIGURATION", _CONFIGURATION]
    for about in settings().values():
        unit = f" ({about.unit})" if about.unit else ""
        bounds = "" if isinstance(about.default, str) else _bounds(about.low, about.high)
        values = f"Default {toml_value(about.default)}, for example {toml_value(about.example)}{bounds}"
        lines += [".TP", f"\\fB{_roff(about.key)}\\fR", _roff(f"{about.meaning}{unit}. {values}.")]
    codes = [(str(code), meaning) for code, meaning in EXIT_CODES.items()]
    for head, pairs in (("ENVIRONMENT", _ENVIRONMENT), ("FILES", _FILES), ("EXIT STATUS", codes)):
        lines += _section(head, pairs)
    return "\n".join(lines) + "\n"


def _section(head: str, pairs: Iterable[tuple[str, str]]) -> list[str]:
    lines = [f".SH {head}"]
    for term, text in pairs:
        lines += [".TP", f"\\fB{_roff(term)}\\fR", _roff(text) + "."]
    return lines


def _command(command: Command) -> list[str]:
    if command.actions:
        default = f"; without an ACTION: {command.default_action}" if command.default_action else ""
        lines = [f".SS {_roff(command.name)}", _roff(_sentence(command.summary + default))]
    else:
        lines = [f".SS {_roff(command.name)}", *_usage(command)]
    for action in command.actions:
        lines += _usage(action)
        if action.also:
            lines += [".PP", _roff(f"Also written {', '.join(action.also)}.")]
    return lines


def _usage(command: Command) -> list[str]:
    lines = [".PP", f"\\fB{_roff(command.usage)}\\fR", ".PP", _roff(_sentence(command.summary))]
    for each in command.arguments:
        if _COMMON.isdisjoint(each.names):
            lines += [".TP", _term(each), _roff(_sentence(each.help) or _sentence(", ".join(each.choices)))]
    if command.examples:
        lines += [".PP", "Examples:"]
    for example in command.examples:
        lines += [".br", f"\\fB{_roff(example)}\\fR"]
    return lines


def _term(argument: Argument) -> str:
    if not argument.names:
        return f"\\fI{_roff(argument.shown)}\\fR"
    names = ", ".join(f"\\fB{_roff(name)}\\fR" for name in argument.names)
    if argument.takes.value == "nothing":
        return names
    return f"{names} \\fI{_roff('|'.join(argument.choices) or argument.shown)}\\fR"


def _sentence(text: str) -> str:
    if not text or "://" in text.split(maxsplit=1)[0]:
        return text
    return text[0].upper() + text[1:] + ("" if text.endswith(".") else ".")


def _bounds(low: float | None, high: float | None) -> str:
    if low is None:
        return ""
    return f"; at least {low}" if high is None else f"; {low} to {high}"


def _roff(text: str) -> str:
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text.startswith((".", "'")) else text


if __name__ == "__main__":
    sys.stdout.write(manual())
