"""The agent's HTTP server; the local API, the fleet page and the LAN file server are conversations on it.

1. Unauthenticated connections (strangers) and known clients have separate places. Every new connection gets a place:
   of the connections whose request is still awaited, the server closes the one that has waited longest, starting with
   the host that holds most. So neither slow nor many connections lock others out (`places`).
2. A request and a TLS handshake must each be complete before a deadline, however steadily bytes arrive (`reading`).
3. The server never waits while it holds a lock. It delays the answer to a wrong password in the guesser's own place,
   which the next stranger may take; a right password and a session are answered at once (`exchange`).
4. The server refuses a head that two parsers could read differently (`exchange`).
5. Each client has its own thread; an error of one client ends only its own connection (`listener`).

Read the modules in this order: `places`, `reading`, `exchange`, `listener`.
"""
