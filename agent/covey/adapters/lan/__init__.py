"""Files from device to device on one network (docs/protocol/content.md, "Content"). Loaded only by agents configured
for it.

1. A file is requested by a tag that is derived from its hash and a salt of the giver. Only members know a hash, so a
   tag shows that its sender is one, or was one when the file was put; an eavesdropper learns no hash.
2. Only ciphertext is given, and only to addresses of private networks, of this link or of this machine.
3. Every connection is bounded in time, and so is their number.

Read `tags.py`, `server.py`, `peer.py`, and `discovery.py`, which alone loads `zeroconf`.
"""
