"""One author and one recipient: nothing between them is lost or accepted twice.

Rules: a message is deleted once its recipient's acknowledgement covers it. Numbers on the wire are contiguous in each
incarnation; places in a queue continue across incarnations (`incarnations.py`).

Sending: `queued.py` (classes and lanes of messages), `send_queue.py` (into the store), `windows.py` and
`send_window.py` (what is in flight), `pacing.py` (when to repeat), `sealer.py` (envelopes), `sender.py` (out of the
store). Receiving: `rates.py` (how much to process), `receiver.py` (numbers and acknowledgements), `imprints.py` (notice
a second incarnation). Both: `link_keys.py` (cheaper envelopes).

The relay: `connect_windows.py` (when to connect), `carriage.py` and `taken_sizes.py` (which sizes it accepts). For
all: `state.py` (what outlives a failed commit), `after_commit.py` (what waits for a commit), `shares.py` (limits that
parties share).
"""
