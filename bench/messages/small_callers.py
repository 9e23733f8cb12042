"""Programs that send blobs of 200 bytes through the local API at the same time, as `bench.messages.small` drives them.

Each is a thread with Covey's own client (`covey.client`), and a connection that it keeps.

python -m bench.messages.small_callers SOCKET COUNT CALLERS
"""

from __future__ import annotations

import secrets
import sys
import time
from threading import Thread

from bench.messages.small_sender import SIZE
from covey.client import Client

_LOOK_S = 0.01


def main(path: str, count: int, callers: int) -> None:
    """Send, each caller its next blob when the last one is answered; wait until the recipient has acknowledged all."""
    contents = [secrets.token_bytes(SIZE) for _ in range(count)]
    done: list[int] = []
    threads = [Thread(target=_call, args=(path, contents[caller::callers], done)) for caller in range(callers)]
    print("ready", flush=True)
    sys.stdin.readline()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if len(done) < callers:
        sys.exit("a caller failed")
    client = Client(path)
    while client.status()["outbox"]["messages"]:
        time.sleep(_LOOK_S)


def _call(path: str, contents: list[bytes], done: list[int]) -> None:
    client = Client(path)
    for content in contents:
        client.send(content)
    done.append(len(contents))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
