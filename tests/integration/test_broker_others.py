"""The configurations that no test can boot: well-formed, and each promise of `broker_conf/README.md` in its place."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from pyhocon import ConfigFactory

from covey.adapters.mqtt.settings import publish_bytes
from covey.limits.message import MAXIMUM_ENVELOPE_BYTES
from covey.limits.pairing import MAXIMUM_OPEN_INVITES

_FOLDER = Path(__file__).parents[2] / "broker_conf"
_PACKET_BYTES = publish_bytes(len("covey/1/in/") + 32, MAXIMUM_ENVELOPE_BYTES)
_OTHERS = ("emqx", "vernemq", "nanomq", "hivemq")


def _hocon(name: str) -> Mapping[str, Any]:
    text = re.sub(r"\{ include (\"[^\"]+\") \}", r"\1", (_FOLDER / name).read_text())  # NanoMQ's own form
    parsed: Mapping[str, Any] = ConfigFactory.parse_string(text)
    return parsed


def _options(name: str) -> dict[str, str]:
    lines = [line for line in (_FOLDER / name).read_text().splitlines() if line and not line.startswith("#")]
    assert all(line.count(" = ") == 1 for line in lines)
    options = dict(line.split(" = ") for line in lines)
    assert len(options) == len(lines), "an option twice"
    return options


def test_emqx() -> None:
    found = _hocon("emqx/emqx.conf")
    assert found["listeners.ssl.default.ssl_options.verify"] == "verify_peer"
    assert found["listeners.ssl.default.ssl_options.fail_if_no_peer_cert"]
    assert found["listeners.ssl.default.ssl_options.versions"] == ["tlsv1.3"]
    assert [found[f"listeners.{kind}.default.enable"] for kind in ("tcp", "ws", "wss")] == [False] * 3
    assert found["mqtt.peer_cert_as_username"] == found["mqtt.peer_cert_as_clientid"] == "cn"
    assert _PACKET_BYTES <= found["mqtt.max_packet_size"] < 2 * _PACKET_BYTES
    assert not found["mqtt.retain_available"]
    assert found["mqtt.max_subscriptions"] > MAXIMUM_OPEN_INVITES
    assert found["listeners.ssl.default.max_connections"] > 0
    assert found["authorization.no_match"] == "deny"
    assert [Path(each["path"]).name for each in found["authorization.sources"]] == ["covey-acl.conf"]


def test_emqx_s_rules_in_their_order() -> None:
    text = re.sub(r"%%.*", "", (_FOLDER / "emqx/covey-acl.conf").read_text())
    rules = re.findall(r"\{(allow|deny), (all|\{username, \"\w+\"\})(?:, (\w+), \[\"([^\"]+)\"\])?\}\.", text)
    assert len(rules) == text.count("}.\n"), "a rule that is not like the others"
    assert rules == [
        ("deny", '{username, "enrol"}', "all", "covey/1/in/#"),
        ("allow", "all", "subscribe", "covey/1/in/${username}"),
        ("allow", "all", "publish", "covey/1/in/+"),
        ("allow", "all", "all", "covey/1/pair/+/+"),
        ("deny", "all", "", ""),
    ]


def test_vernemq() -> None:
    found = _options("vernemq/vernemq.conf")
    listeners = {name.split(".")[1] for name in found if name.startswith("listener.")}
    assert listeners == {"ssl"}
    for option in ("require_certificate", "use_identity_as_username"):
        assert found[f"listener.ssl.default.{option}"] == "on"
    assert found["listener.ssl.default.tls_version"] == "tlsv1.3"
    assert int(found["listener.ssl.default.max_connections"]) > 0
    assert found["allow_anonymous"] == found["systree_enabled"] == found["allow_multiple_sessions"] == "off"
    assert found["plugins.vmq_diversity"] == found["plugins.vmq_acl"] == "on"
    assert int(found["plugins.vmq_diversity.priority"]) < int(found["plugins.vmq_acl.priority"])
    assert MAXIMUM_ENVELOPE_BYTES <= int(found["max_message_size"]) < 2 * MAXIMUM_ENVELOPE_BYTES


def test_vernemq_s_rules_suit_its_parser() -> None:
    text = (_FOLDER / "vernemq/covey.acl").read_text()
    assert text.endswith("\n")
    lines = text.splitlines()
    assert all(line and line == line.strip() for line in lines)
    rules = [line for line in lines if not line.startswith("#")]
    assert rules == ["pattern read covey/1/in/%u", "pattern write covey/1/in/+", "pattern covey/1/pair/+/+"]
    script = (_FOLDER / "vernemq/covey.lua").read_text()
    assert "return reg.username ~= nil and reg.client_id == reg.username" in script
    assert len(re.findall(r"\b(?:function|then)\b", script)) == len(re.findall(r"\bend\b", script))


def test_nanomq() -> None:
    found = _hocon("nanomq/nanomq.conf")
    assert list(found["listeners"]) == ["ssl"]
    assert not found["auth.allow_anonymous"]
    assert found["auth.no_match"] == "deny"
    assert Path(found["auth.acl"]).name == "covey-acl.conf"
    kilobytes = int(re.fullmatch(r"(\d+)KB", found["mqtt.max_packet_size"])[1])  # type: ignore[index]
    assert _PACKET_BYTES <= kilobytes * 1024 < 2 * _PACKET_BYTES
    rules = [dict(rule) for rule in _hocon("nanomq/covey-acl.conf")["rules"]]
    assert rules[0]["permit"] == "deny"
    assert rules[0]["username"] == "enrol"
    assert [(each["action"], each["topics"]) for each in rules[1:-1]] == [
        ("subscribe", ["covey/1/in/${username}"]),
        ("publish", ["covey/1/in/+"]),
        ("pubsub", ["covey/1/pair/+/+"]),
    ]
    assert rules[-1] == {"permit": "deny"}


def _xml(name: str) -> ET.Element:
    return ET.parse(_FOLDER / "hivemq" / name).getroot()


def test_hivemq() -> None:
    found = _xml("config.xml")
    assert [each.tag for each in found.iterfind("listeners/*")] == ["tls-tcp-listener"]
    assert [each.text for each in found.iter("protocol")] == ["TLSv1.3"]
    assert int(found.findtext("restrictions/max-connections", "")) > 0
    assert int(found.findtext("mqtt/session-expiry/max-interval", "")) == 7 * 86_400
    assert _PACKET_BYTES <= int(found.findtext("mqtt/packets/max-packet-size", "")) < 2 * _PACKET_BYTES
    for feature in ("retained-messages", "wildcard-subscriptions", "shared-subscriptions"):
        assert found.findtext(f"mqtt/{feature}/enabled") == "false"
    assert _xml("extension-config.xml").findtext("next-extension-instead-of-fail") == "false"


def test_hivemq_s_roles() -> None:
    found = _xml("credentials.xml")
    roles = {
        role.findtext("id"): [
            (each.findtext("topic"), each.findtext("activity", "ALL"))
            for each in role.iterfind("permissions/permission")
        ]
        for role in found.iterfind("roles/role")
    }
    assert roles == {
        "device": [
            ("covey/1/in/${{username}}", "SUBSCRIBE"),
            ("covey/1/in/+", "PUBLISH"),
            ("covey/1/pair/+/+", "ALL"),
        ],
        "rendezvous": [("covey/1/pair/+/+", "ALL")],
    }
    users = {user.findtext("name"): [each.text for each in user.iterfind("roles/id")] for user in found.iter("user")}
    assert users == {"enrol": ["rendezvous"]}


@pytest.mark.parametrize("name", _OTHERS)
def test_each_says_that_it_was_not_booted(name: str) -> None:
    main = {"emqx": "emqx.conf", "vernemq": "vernemq.conf", "nanomq": "nanomq.conf", "hivemq": "config.xml"}[name]
    head = (_FOLDER / name / main).read_text()[:600]
    assert "Not booted by the tests" in head
    assert "covey broker check" in head
    assert f"]({name}/)" in (_FOLDER / "README.md").read_text()


def test_systemd_takes_the_units_that_reload_mosquitto(tmp_path: Path) -> None:
    units = sorted((_FOLDER / "mosquitto").glob("covey-passwords.*"))
    assert len(units) == 2
    path, service = (unit.read_text() for unit in units)
    (watched,) = re.findall(r"^PathChanged=(.*)$", path, re.MULTILINE)
    assert f"password_file {watched}" in (_FOLDER / "mosquitto" / "mosquitto.conf").read_text()
    assert "ExecStart=/usr/bin/systemctl try-restart mosquitto.service" in service
    if verifier := shutil.which("systemd-analyze"):
        (tmp_path / "mosquitto.service").write_text("[Service]\nExecStart=/bin/true\n")
        for unit in units:
            (tmp_path / unit.name).write_text(unit.read_text())
        done = subprocess.run(
            [verifier, "verify", "--man=no", *(str(tmp_path / unit.name) for unit in units)],
            capture_output=True, text=True, check=False, env={"SYSTEMD_UNIT_PATH": f"{tmp_path}:"},
        )  # fmt: skip
        assert "covey-passwords" not in done.stderr, done.stderr
