"""Files from device to device on one network (docs/protocol/content.md, "Content"). Loaded by agents that are set to
do so.

1. A file is asked for by a tag that is derived from its hash and from a salt of whoever gives it. Only members know a
   hash, so a tag shows that its sender is one, or was one when the file was put; who listens learns no hash.
2. What is given is ciphertext, and only to addresses of private networks, of this link or of this machine.
3. Every connection is bounded in time, and so is their number.

Read `tags.py`, `server.py`, `peer.py`, and `discovery.py`, which alone loads `zeroconf`.
"""
