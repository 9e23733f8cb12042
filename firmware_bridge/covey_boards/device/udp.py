"""The line over UDP, if a board has a network: Wi-Fi, or another one of its port. Loaded if `covey.json` has "udp".

The radio is joined when there is something to send, and left to the port after that; what cannot be sent is lost, as on
a bad line, and repeated.
"""

import select
import socket

try:
    from covey_boards.shared.datagrams import DATAGRAM_BYTES_MAX, Datagrams
except ImportError:
    from datagrams import DATAGRAM_BYTES_MAX, Datagrams
from os import urandom


class Udp:
    """The line to one gateway.

    Args:
        host, port: of the gateway.
        local_port: of the board: the same after each start, so that its gateway knows the line again.
        wifi: {"ssid": ..., "key": ...} of the network to join; None where it is there.
    """

    def __init__(self, host, port, local_port=None, wifi=None):
        self._datagrams = Datagrams(urandom(4))
        self._gateway, self._wifi, self._network = (host, port), wifi, None
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(socket.getaddrinfo("0.0.0.0", local_port or port)[0][-1])
        self._socket.setblocking(False)
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)
        self._address = None

    def _is_there(self):
        """Join the network, if that has to be; say whether it is there."""
        if self._wifi is not None:
            if self._network is None:
                import network

                self._network = network.WLAN(network.STA_IF)
                self._network.active(True)
                self._network.connect(self._wifi["ssid"], self._wifi["key"])
            if not self._network.isconnected():
                return False
        if self._address is None:
            self._address = socket.getaddrinfo(*self._gateway)[0][-1]
        return True

    def read(self, wait_ms):
        """Return the frames that have arrived, after `wait_ms` at most."""
        if not self._poll.poll(wait_ms):
            return b""
        try:
            return self._datagrams.frames_of(self._socket.recvfrom(DATAGRAM_BYTES_MAX)[0])
        except OSError:  # nobody listens there at the moment
            return b""

    def write(self, raw):
        """Send frames."""
        try:
            if self._is_there():
                self._socket.sendto(self._datagrams.wrapped(raw), self._address)
        except OSError:  # no way, or no room
            pass
