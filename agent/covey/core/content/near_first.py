"""When members are asked at a relay for a file that places nearby may have (docs/protocol.md, "Content").

1. While a file is looked for nearby no member is asked for it, from the moment on that it is wanted.
2. Where there are peers, or they are still being looked for, that lasts a while, although none of them has the file: it
   is bounded, and how long it is comes of this device's key and the file's hash. So of many that begin to want a file
   at once one is through first; the others look again meanwhile, see that it asks at the relay, and wait for it.
"""

from __future__ import annotations

import hashlib

from covey.core.ids import ContentHash, DeviceKey
from covey.limits.content import NEAR_LOOK_SPREAD_US, NEAR_LOOK_US

_DRAWN_BYTES = 8


def look_us(own: DeviceKey, content: ContentHash, *, has_peers: bool) -> int:
    """Return how long a device looks for a file nearby before it asks members, in microseconds."""
    if not has_peers:
        return 0
    drawn = hashlib.blake2b(own + content, digest_size=_DRAWN_BYTES).digest()
    return NEAR_LOOK_US + int.from_bytes(drawn, "big") % NEAR_LOOK_SPREAD_US
