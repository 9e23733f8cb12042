"""Programs that send blobs of 200 bytes through the local API at the same time, as `bench.messages.small` drives them.

python -m bench.messages.small_callers SOCKET COUNT CALLERS
"""

from __future__ import annotations

import secrets
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from bench.messages.small_sender import SIZE
from covey.client import Client

_LOOK_S = 0.01


def main(path: str, count: int, callers: int) -> None:
    """Send, each caller its next blob when the last one is answered; wait until the recipient has acknowledged all."""
    client = Client(path)
    contents = [secrets.token_bytes(SIZE) for _ in range(count)]
    print("ready", flush=True)
    sys.stdin.readline()
    with ThreadPoolExecutor(callers) as threads:
        list(threads.map(client.send, contents))
    while client.status()["outbox"]["messages"]:
        time.sleep(_LOOK_S)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
