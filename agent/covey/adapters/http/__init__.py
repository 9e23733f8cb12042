"""The agent's one HTTP server: the local API, the fleet's page and the files for peers are conversations on it.

1. Connections that have proved nothing (strangers) and known clients have places of their own. Whoever comes gets a
   place: among those whose request is awaited, the one that has waited longest makes room, first of the host that holds
   most. So neither slow nor many connections keep anybody out (`places`).
2. A request that has begun must be whole in time, however steadily it drips; so must a TLS handshake (`reading`).
3. Nothing waits while it holds a lock. A wrong password is answered late, in the guesser's own place, which the next
   stranger takes; a right one and a session are answered at once (`exchange`).
4. A head that two readers could understand differently is refused (`head`).
5. A thread for each client; what one of them does wrong ends its own connection only (`listener`).

To be read in this order: `places`, `reading`, `head`, `exchange`, `listener`.
"""
