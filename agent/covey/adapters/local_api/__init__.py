"""HTTP on a Unix socket, so that `curl --unix-socket` and every language can speak with the agent. No decisions here.

1. Who may connect is decided by the socket's mode (0660), its group and its folder; there is no other credential.
   The group has it before anybody can open it, and a socket on which somebody answers is never taken over.
2. Everything that a client can take is bounded by the server that the fleet's page uses too (`adapters/http`). The
   socket's mode is the proof: whoever has sent a whole request is a known client.
3. A message whose length two readers could understand differently is refused (RFC 9112, section 6).
4. An error of ours is answered as JSON with its code; anything unforeseen as 500, and the agent goes on.
5. A streamed answer is one JSON document a line, or server-sent events; `None` in it is a sign of life, sent as an
   empty line or a comment. Nothing is kept for who does not take it: the stream is cut, and resumed where it was.

In reading order: `routes` (what a service answers), `conversation` (HTTP), `server` (the socket).
"""
