"""The reference pages, written from the product itself, so that they cannot say anything else than it does."""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from covey import errors
from covey.app.api.operations import api_description
from covey.cli.command_tree import Argument, Command, Takes, commands
from covey.cli.commands.help import WORDS
from covey.cli.main import main
from covey.config.settings import Setting, settings, toml_value

_COMMON = {"--help", "--state", "--config", "--passphrase-file"}


def _cell(text: str) -> str:
    """Return a text for a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    head = list(head)
    lines = [head, ["---"] * len(head), *(list(row)[: len(head)] for row in rows)]
    return ["", *(f"| {' | '.join(_cell(each) for each in line)} |" for line in lines), ""]


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "?")) or not text else ".")


def commands_page() -> str:
    """Return every command with its actions, arguments and examples, from the parsers."""
    lines = [
        "# Commands",
        "",
        "Each command also takes `--state DIR`, `--config FILE` and `--passphrase-file FILE`.",
        "Read [exit codes and common options](../how-to/index.md#every-command) once.",
        "",
        "## Words",
        "",
        "`covey help words` prints this list.",
        *_table(("word", "meaning"), WORDS.items()),
    ]
    for command in commands():
        lines += ["", f"## covey {command.name}", "", _sentence(command.summary)]
        if command.actions:
            if command.default_action:
                lines += ["", f"Without an action: `{command.default_action}`."]
            for action in command.actions:
                lines += ["", f"### covey {' '.join(action.path)}", "", _sentence(action.summary), *_usage(action)]
        else:
            lines += _usage(command)
    return "\n".join(lines) + "\n"


def _usage(command: Command) -> Iterator[str]:
    yield from ("", "```text", command.usage, "```")
    known = [each for each in command.arguments if _COMMON.isdisjoint(each.names)]
    if known:
        yield from _table(("argument", "meaning"), ((_names(each), each.help) for each in known))
    if command.examples:
        yield from ("", "```text", *command.examples, "```")


def _names(argument: Argument) -> str:
    if not argument.names:
        return f"`{argument.shown}`"
    value = "" if argument.takes is Takes.NOTHING else " " + ("/".join(argument.choices) or argument.shown)
    return ", ".join(f"`{name}{value}`" for name in argument.names)


def settings_page() -> str:
    """Return every setting by section, from the registry."""
    sections: dict[str, list[Setting]] = defaultdict(list)
    for each in settings().values():
        sections[each.key.rpartition(".")[0]].append(each)
    lines = [
        "# Settings",
        "",
        "`covey config set KEY VALUE` changes one on this device, `covey setting set KEY VALUE --for WHOM` on many.",
        "The variable `COVEY_SECTION_KEY` overrides it, e.g. `COVEY_RELAY_URL` overrides `relay.url`.",
        "A setting marked *local* can be set by the device's owner only.",
    ]
    for section, found in sections.items():
        lines += ["", f"## {section or 'Top level'}"]
        lines += _table(("setting", "meaning"), ((f"`{each.key}`", _meaning(each)) for each in found))
    return "\n".join(lines) + "\n"


def _meaning(setting: Setting) -> str:
    unit, local = f" ({setting.unit})" if setting.unit else "", "; *local*" if setting.local else ""
    return f"{setting.meaning}{unit}{local}. Default `{toml_value(setting.default)}`; {_bounds(setting)}"


def _bounds(setting: Setting) -> str:
    if setting.choices:
        return ", ".join(f"`{each}`" for each in setting.choices)
    example = f"e.g. `{toml_value(setting.example)}`"
    if isinstance(setting.default, str) or setting.low is None:
        return example
    return f"{example}; at least {setting.low:g}" + ("" if setting.high is None else f", at most {setting.high:g}")


def metrics_page() -> str:
    """Return every metric, as a new device with a mailbox and a door prints them."""
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder) / "state"
        _covey(state, "init", "--label", "shed")
        _covey(state, "config", "set", "mailbox.serve", "true")
        text = _covey(state, "metrics")
    lines = [
        "# Metrics",
        "",
        "`covey metrics` prints them as OpenMetrics; [how to collect them](../how-to/fleet.md#collect-metrics).",
        "A counter's samples end in `_total`.",
        "Labels never hold text that another device chose.",
        "[grafana.json](grafana.json) is a dashboard.",
    ]
    rows = []
    for name, kind, meaning, samples in _families(text):
        labels = sorted({pair.partition("=")[0] for each in samples for pair in _labels(each)})
        rows.append((f"`{name}`", kind, meaning, ", ".join(f"`{each}`" for each in labels)))
    lines += _table(("metric", "type", "meaning", "labels"), rows)
    lines += [
        "",
        "Where sensors, groups or doors are configured, their metrics have a label with the name.",
        "A collector with doors has metrics `covey_door_*`.",
        "The tables' engine has `covey_ingest_*`: see [Tables](../how-to/tables.md#watch-the-engine).",
    ]
    return "\n".join(lines) + "\n"


def _families(text: str) -> Iterator[tuple[str, str, str, list[str]]]:
    for block in text.split("# TYPE ")[1:]:
        head, *lines = block.splitlines()
        name, _, kind = head.partition(" ")
        meaning = next(line for line in lines if line.startswith("# HELP ")).removeprefix(f"# HELP {name} ")
        yield name, kind, meaning.rstrip("."), [line for line in lines if not line.startswith("#")]


def _labels(sample: str) -> list[str]:
    inner = sample.partition("{")[2].partition("}")[0]
    return [each for each in inner.split(",") if "=" in each]


def _covey(state: Path, *words: str) -> str:
    """Return what a command prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
        code = main([words[0], "--state", str(state), *words[1:]])
    assert code == 0, f"covey {' '.join(words)} ended with {code}"
    return printed.getvalue()


def api_page() -> str:
    """Return every operation of the local API, from its own description."""
    described = api_description()
    lines = [
        "# Local API",
        "",
        "The agent answers HTTP on a Unix socket; [how programs use it](../how-to/programs.md).",
        "`GET /openapi.json` returns the whole description with all fields, for programs and code generators.",
        'An error is `{"error": CODE, "message": …, "hint": …}`.',
    ]
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            lines += ["", f"## {method.upper()} {path}", "", _sentence(operation["summary"])]
            if "description" in operation:
                lines += ["", _sentence(operation["description"])]
            rows = [
                (f"`{each['name']}`", each["in"], each.get("description", "") or _kind(each["schema"]))
                for each in operation.get("parameters", [])
            ]
            lines += _table(("parameter", "in", "meaning"), rows) if rows else []
            bodies = operation.get("requestBody", {}).get("content", {})
            lines += ["", f"Body: {', '.join(f'`{each}`' for each in bodies)}."] if bodies else []
            lines += ["", "Answers: " + "; ".join(_answers(operation["responses"], described)) + "."]
    return "\n".join(lines) + "\n"


def _kind(schema: dict[str, object]) -> str:
    return " or ".join(f"`{each}`" for each in schema.get("enum", [schema.get("type", "")]))  # type: ignore[attr-defined]


def _answers(
    responses: dict[str, dict[str, str]], described: dict[str, dict[str, dict[str, dict[str, str]]]]
) -> Iterator[str]:
    for code, each in responses.items():
        name = each.get("$ref", "").rpartition("/")[2]
        yield f"{code} {each.get('description') or described['components']['responses'][name]['description']}"


def tables_page() -> str:
    """Return the tables and their columns, from the schemas that the engines write."""
    from covey_ingest.committer.tables import SCHEMAS
    from covey_ingest.task.columns import COLUMNS

    meanings = {each.name: each.meaning for each in COLUMNS}
    lines = [
        "# Tables",
        "",
        "Every table is a Delta table in a folder of its name; [how to read them](../how-to/readers.md).",
        "`covey tables query` adds [views](../how-to/tables.md#views).",
        "*Section N* is a section of the [protocol](../protocol/index.md).",
    ]
    for name, schema in SCHEMAS.items():
        known = meanings if name == "readings" else {}
        rows = ((f"`{each.name}`", str(each.type), known.get(each.name, "")) for each in schema)
        lines += ["", f"## {name}", *_table(("column", "type", "meaning") if known else ("column", "type"), rows)]
    return "\n".join(lines) + "\n"


def errors_page() -> str:
    """Return the error classes with their codes, from the error tree."""
    lines = [
        "# Error codes",
        "",
        "Logs, counters, `--json` and the API name an error by its code; codes do not change.",
    ]
    for title, root, text in (
        ("A peer, the relay or a store broke a rule", errors.RemoteError, "The agent drops it, counts it and goes on."),
        ("Your request or configuration is wrong", errors.LocalError, "A command prints `error:` and `hint:`."),
        ("Try again later", errors.TransientError, ""),
        ("The disk or the database", errors.StorageError, "The agent stops and keeps the data."),
    ):
        rows = ((f"`{each.code}`", (each.__doc__ or "").partition("\n\n")[0]) for each in _below(root))
        lines += ["", f"## {title}", "", text, *_table(("code", "meaning"), rows)]
    return "\n".join(lines) + "\n"


def _below(kind: type[errors.CoveyError]) -> Iterator[type[errors.CoveyError]]:
    yield kind
    for each in kind.__subclasses__():
        yield from _below(each)


PAGES: dict[str, Callable[[], str]] = {
    "reference/commands.md": commands_page,
    "reference/settings.md": settings_page,
    "reference/metrics.md": metrics_page,
    "reference/api.md": api_page,
    "reference/tables.md": tables_page,
    "reference/errors.md": errors_page,
}
"""Every generated page, by its path in docs/."""
