"""Binds the page's socket before anything else is loaded, and names the address to open."""

from __future__ import annotations

import ipaddress
import os
import socket
from dataclasses import dataclass

from palaestra.core.errors import ConfigError
from palaestra.web.access import new_token, user_token

LOOPBACK = "127.0.0.1"
PORT = 8600
TRIED = 50
"""Number of ports that are tried, beginning with the wanted port."""
_NOT_OURS = {99, 49, 10049}  # EADDRNOTAVAIL on Linux, macOS and Windows


@dataclass(slots=True)
class PageSocket:
    """Socket of the page, bound before anything is loaded, and the address to open."""

    bind: str
    port: int
    wanted: int
    socket: socket.socket
    token: str

    def address(self, path: str = "/", host: str = "", token: str = "") -> str:
        """Returns a page's address with the user's token, or a guest's token.

        The address also works on other machines, if the page is bound to more than the loopback address.
        """
        host = host or socket.gethostname() if ipaddress.ip_address(self.bind).is_unspecified else self.bind
        address = f"[{host}]" if ":" in host else host
        return f"http://{address}:{self.port}{path}{'&' if '?' in path else '?'}token={token or self.token}"

    @property
    def is_private(self) -> bool:
        """Whether only this machine can reach the page."""
        return ipaddress.ip_address(self.bind).is_loopback


def listen(bind: str = LOOPBACK, port: int = PORT) -> PageSocket:
    """Binds the wanted port, or the next free one. Raises ConfigError for an address that is not this machine's, or if
    no port is free."""
    try:
        family = socket.AF_INET6 if ipaddress.ip_address(bind).version == 6 else socket.AF_INET
    except ValueError as error:
        raise ConfigError(
            f"--bind {bind}: expected an IP address of this machine, such as 127.0.0.1, or 0.0.0.0 for all of them"
        ) from error
    for number in range(port, min(port + TRIED, 65536)):
        bound = socket.socket(family, socket.SOCK_STREAM)
        if os.name == "posix":
            # a port that was just left; one that is in use stays refused
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind((bind, number))
            bound.listen(128)  # two that bind one port at once differ here
        except PermissionError as error:
            bound.close()
            raise ConfigError(
                f"--port {number}: ports below 1024 are the administrator's; choose a greater one"
            ) from error
        except OSError as error:
            bound.close()
            if error.errno in _NOT_OURS:
                raise ConfigError(f"--bind {bind} is not an address of this machine: {error.strerror}") from error
            continue
        alone = ipaddress.ip_address(bind).is_loopback
        # what went over a network, and to other people, ends with the command
        return PageSocket(bind, bound.getsockname()[1], port, bound, user_token() if alone else new_token())
    raise ConfigError(
        f"none of the ports {port} to {min(port + TRIED, 65536) - 1} is free on {bind}; choose another with --port"
    )
