"""Home Assistant's WebSocket API, as far as a door uses it: what it answers was recorded from Home Assistant 2024.3.3.

`tests/integration/test_door_history.py` puts the same questions to the real one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from threading import Thread
from typing import Any

from websockets.exceptions import ConnectionClosedError
from websockets.sync.server import Server, ServerConnection, serve

TOKEN = "a-long-lived-token"
_OLD_METADATA = {"source", "statistic_id", "name", "unit_of_measurement", "has_sum", "has_mean"}
_NEW_METADATA = {"source", "statistic_id", "name", "unit_of_measurement", "has_sum", "mean_type", "unit_class"}


class HouseApi:
    """What a house has stored, and how it behaves."""

    def __init__(self) -> None:
        self.version = "2024.3.3"
        self.state, self.recording, self.is_administrator = "RUNNING", True, True
        self.entities = dict[str, str]()
        """Ids of entities, by `unique_id`."""
        self.units = dict[str, str | None]()
        """Units of statistics, by the entity's id."""
        self.rows = dict[tuple[str, int], dict[str, float]]()
        """Stored rows, by entity and hour."""
        self.imports = list[dict[str, Any]]()
        self.asked = list[str]()
        self.paths = list[str]()
        """Where clients have connected."""
        self.answers_before_it_stores = 0
        """How many looks find nothing of an import."""
        self.leaves_at = 0
        """The question that it does not answer any more; 0: it answers all."""
        self._unstored = list[dict[str, Any]]()

    def serve_one(self, connection: ServerConnection) -> None:
        """Speak with one client."""
        assert connection.request is not None
        self.paths.append(connection.request.path)
        connection.send(json.dumps({"type": "auth_required", "ha_version": self.version}))
        if json.loads(connection.recv()) != {"type": "auth", "access_token": TOKEN}:
            connection.send(json.dumps({"type": "auth_invalid", "message": "Invalid access token or password"}))
            return
        connection.send(json.dumps({"type": "auth_ok", "ha_version": self.version}))
        with suppress(ConnectionClosedError):  # a door that is killed says no farewell
            self._converse(connection)

    def _converse(self, connection: ServerConnection) -> None:
        for text in connection:
            command = json.loads(text)
            self.asked.append(command["type"])
            answer = self._answer(command)
            if len(self.asked) == self.leaves_at:
                return
            connection.send(json.dumps({"id": command["id"], "type": "result", **answer}))

    def _answer(self, command: dict[str, Any]) -> dict[str, Any]:
        if command["type"] == "recorder/import_statistics":
            return self._import(command)
        found: Any = None
        match command["type"]:
            case "get_config":
                found = {"state": self.state}
            case "recorder/info":
                found = {"recording": self.recording, "migration_in_progress": False, "backlog": 0}
            case "config/entity_registry/list":
                found = [
                    {"unique_id": unique, "entity_id": entity, "platform": "mqtt", "disabled_by": None}
                    for unique, entity in self.entities.items()
                ]
            case "recorder/get_statistics_metadata":
                known = [each for each in self.units if each in command["statistic_ids"]]
                found = [{"statistic_id": each, "statistics_unit_of_measurement": self.units[each]} for each in known]
            case "recorder/statistics_during_period":
                found = self._period(command)
            case _:
                return _refusal("unknown_command", "Unknown command.")
        return _result(found)

    def _import(self, command: dict[str, Any]) -> dict[str, Any]:
        metadata = command["metadata"]
        if not self.is_administrator:
            return _refusal("unauthorized", "Unauthorized")
        if set(metadata) != (_NEW_METADATA if self.version >= "2025.11" else _OLD_METADATA):
            return _refusal("invalid_format", "extra keys not allowed @ data['metadata']['mean_type']. Got 1")
        self._unstored.append(command)
        if not self.answers_before_it_stores:
            self._store()
        return _result(None)

    def _store(self) -> None:
        for command in self._unstored:
            entity = command["metadata"]["statistic_id"]
            self.imports.append(command)
            self.units[entity] = command["metadata"]["unit_of_measurement"]
            for row in command["stats"]:
                self.rows[entity, _hour(row["start"])] = {name: row[name] for name in ("mean", "min", "max")}
        self._unstored.clear()

    def _period(self, command: dict[str, Any]) -> dict[str, list[dict[str, float]]]:
        if self.answers_before_it_stores:
            self.answers_before_it_stores -= 1
        else:
            self._store()
        first, end = _hour(command["start_time"]), _hour(command["end_time"])
        found = dict[str, list[dict[str, float]]]()
        for (entity, hour), row in sorted(self.rows.items()):
            if entity in command["statistic_ids"] and first <= hour < end:
                times = {"start": hour * 3_600_000, "end": (hour + 1) * 3_600_000}
                found.setdefault(entity, []).append(times | row)
        return found


def _hour(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp()) // 3_600


def _result(result: Any) -> dict[str, Any]:
    return {"success": True, "result": result}


def _refusal(code: str, message: str) -> dict[str, Any]:
    return {"success": False, "error": {"code": code, "message": message}}


@contextmanager
def house_api() -> Iterator[tuple[HouseApi, str]]:
    """Serve a house's API; yield the house and its address."""
    house = HouseApi()
    server: Server = serve(house.serve_one, "127.0.0.1", 0)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield house, f"http://127.0.0.1:{server.socket.getsockname()[1]}"
    finally:
        server.shutdown()
        thread.join()
