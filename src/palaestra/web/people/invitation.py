"""Link with which a second person joins a game, and its QR code."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass
from importlib.util import find_spec

import psutil

from palaestra.web.page_socket import PageSocket


@dataclass(frozen=True, slots=True)
class Invitation:
    """Link to a game, with host and token."""

    address: str
    is_private: bool
    """Whether only browsers on this machine can open it."""


def invitation(listener: PageSocket, path: str, token: str) -> Invitation:
    """Returns the link to a path of the page, with a guest's token.

    A page that listens on all addresses gets one of this machine's addresses, since a phone seldom knows the machine's
    name.
    """
    bind = ipaddress.ip_address(listener.bind)
    host = network_address(bind.version) if bind.is_unspecified else ""
    return Invitation(listener.address(path, host, token), listener.is_private)


def network_address(version: int) -> str:
    """Returns an address of this machine in its network; empty if there is none."""
    family = socket.AF_INET if version == 4 else socket.AF_INET6
    up = psutil.net_if_stats()
    found = [
        ipaddress.ip_address(entry.address.partition("%")[0])
        for name, entries in psutil.net_if_addrs().items()
        for entry in entries
        if entry.family == family and name in up and up[name].isup
    ]
    usable = [address for address in found if not address.is_loopback and not address.is_link_local]
    return str(min(usable, key=lambda address: not address.is_private)) if usable else ""


def qr_code(text: str) -> str | None:
    """Returns a picture of a text as a `data:` address; None if segno is not installed."""
    if find_spec("segno") is None:
        return None
    import segno

    return segno.make(text, micro=False).svg_data_uri(scale=6, border=3, dark="#000", light="#fff")
