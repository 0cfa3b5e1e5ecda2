"""The addresses of workers, "HOST:PORT" or "[IPv6]:PORT"."""

import socket

CONNECT_SECONDS = 2.0


def answers(address: str) -> bool:
    """Returns whether a process listens at an address."""
    host, port = _split(address)
    try:
        socket.create_connection((host, port), CONNECT_SECONDS).close()
    except OSError:
        return False
    return True


def listen(address: str, backlog: int) -> socket.socket:
    """Listens at the port of an address of this machine.

    Raises:
      OSError: another process uses the port.
    """
    port = _split(address)[1]
    if socket.has_dualstack_ipv6():
        family = socket.AF_INET6
        return socket.create_server(("", port), family=family, backlog=backlog, dualstack_ipv6=True)
    return socket.create_server(("", port), backlog=backlog)


def _split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)
