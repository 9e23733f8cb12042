"""What others than Covey do on a metered link, as `bench.messages.metered` drives them: paho, with the host's series.

    python -m bench.messages.metered_peer publish HOST PORT CA|- EVERY_S BATCH_S
    python -m bench.messages.metered_peer count PORT

`publish` samples every so many seconds (0: never), and publishes at QoS 1, in a session that lasts: each reading as one
JSON, or with BATCH_S those of so many seconds as one JSON list that zlib compresses. `count` prints, for each line that
it gets, how many readings have arrived at a broker so far.
"""

from __future__ import annotations

import json
import sys
import threading
import time
import zlib
from pathlib import Path

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

from covey.adapters.sensors.host import HostSensors

_SITE = "orchard/pi-7"
_KEEPALIVE_S = 60
"""As the manuals of paho and of mosquitto's bridge have it."""


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _client(name: str) -> mqtt.Client:
    client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id=name, protocol=mqtt.MQTTv311, clean_session=False)
    client.max_queued_messages_set(0)
    return client


def publish(host: str, port: int, authority: str, every_s: float, batch_s: float) -> None:
    """Publish until stdin ends."""
    client = _client("pi-7")
    if authority != "-":
        client.tls_set(ca_certs=authority)
    connected, ended = threading.Event(), threading.Event()
    client.on_connect = lambda *_arguments: connected.set()
    client.connect(host, port, keepalive=_KEEPALIVE_S)
    client.loop_start()
    connected.wait()

    def await_end() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=await_end, daemon=True).start()
    print("ready", flush=True)
    sensors = HostSensors(Path("/"))
    waiting: list[dict[str, str | float]] = []
    due = sends = time.monotonic()
    while not ended.is_set():
        if not every_s:
            time.sleep(1.0)
            continue
        now = round(time.time(), 1)
        for name, unit, value in sensors.sample():
            if batch_s:
                waiting.append({"n": name, "u": unit, "t": now, "v": value})
            else:
                client.publish(f"{_SITE}/{name}", _json({"u": unit, "t": now, "v": value}), qos=1)
        if waiting and time.monotonic() >= sends + batch_s:
            client.publish(_SITE, zlib.compress(_json(waiting), 9), qos=1)
            waiting, sends = [], sends + batch_s
        due += every_s
        time.sleep(max(0.0, due - time.monotonic()))
    client.loop_stop()


def count(port: int) -> None:
    """Count until stdin ends."""
    client = _client("counter")
    arrived = 0
    subscribed = threading.Event()

    def on_message(_client: object, _data: object, message: mqtt.MQTTMessage) -> None:
        nonlocal arrived
        single = message.payload.startswith(b"{")
        arrived += 1 if single else len(json.loads(zlib.decompress(message.payload)))

    def subscribe() -> None:
        client.subscribe(f"{_SITE}/#", qos=1)

    client.on_message = on_message
    client.on_connect = lambda *_arguments: subscribe()
    client.on_subscribe = lambda *_arguments: subscribed.set()
    client.connect("127.0.0.1", port, keepalive=_KEEPALIVE_S)
    client.loop_start()
    subscribed.wait()
    print("ready", flush=True)
    for _ in sys.stdin:
        print(arrived, flush=True)
    client.loop_stop()


if __name__ == "__main__":
    if sys.argv[1] == "publish":
        publish(sys.argv[2], int(sys.argv[3]), sys.argv[4], float(sys.argv[5]), float(sys.argv[6]))
    else:
        count(int(sys.argv[2]))
