"""The local API: HTTP on a Unix socket, for `curl --unix-socket` and any language. This package makes no decisions.

1. The socket's mode (0660), group and folder decide which users may connect; there is no other credential. The socket
   gets its group before anyone can open it, and the agent never takes over a socket on which another program answers.
2. The shared HTTP server (`adapters/http`) limits every resource that a client can use. A client that has sent a
   complete request counts as known, since the socket's mode let it connect.
3. The server refuses a message whose length two parsers could read differently (RFC 9112, section 6).
4. Errors of Covey are answered as JSON with their code, unforeseen ones with status 500; the agent keeps running.
5. A streamed answer is one JSON document per line, or server-sent events; `None` in it is a keep-alive, sent as an
   empty line or a comment. The server does not buffer for slow readers: it cuts the stream, which clients can resume.

Read the modules in this order: `routes` (a service's answers), `conversation` (HTTP), `server` (the socket).
"""
