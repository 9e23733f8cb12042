"""HTTP on a Unix socket, so that `curl --unix-socket` and every language can speak with the agent. No decisions here.

1. Who may connect is decided by the socket's mode (0660), its group and its folder; there is no other credential.
   The group has it before anybody can open it, and a socket on which somebody answers is never taken over.
2. Everything that a client can take is bounded: connections, bytes of bodies over all clients, the time from the first
   byte of a request to its last, and the time in which it takes each part of an answer (`bounds`).
3. Who comes is never shut out by who dawdles: of full connections, the one whose request has been awaited longest ends.
4. A message whose length two readers could understand differently is refused (RFC 9112, section 6).
5. An error of ours is answered as JSON with its code; anything unforeseen as 500, and the agent goes on.
6. A streamed answer is one JSON document a line, or server-sent events; `None` in it is a sign of life, sent as an
   empty line or a comment. Nothing is kept for who does not take it: the stream is cut, and resumed where it was.

In reading order: `routes` (what a service answers), `bounds`, `connections` (who may stay), `bodies` (what they may
hold), `conversation` (HTTP), `server` (the socket).
"""
