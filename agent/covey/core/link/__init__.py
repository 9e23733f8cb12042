"""One author and one recipient: nothing between them is lost or accepted twice.

Rules: a message is deleted once its recipient's acknowledgement covers it. Numbers on the wire are contiguous in each
incarnation; places in a queue continue across incarnations (`incarnations.py`).

Sending: `send_queue.py` (into the store), `windows.py` and `send_window.py` (what is in flight), `sealer.py`
(envelopes), `sender.py` (out of the store). Receiving: `receiver.py`. Both: `link_keys.py`. `state.py` holds what
outlives a failed commit; `after_commit.py` what waits for a commit; `queued.py` the classes and lanes of queued
messages.
"""
