"""Decides who may see the page: only browsers with its token, and only under the page's own address.

The token keeps out other users of the machine; the checks of `Host` and `Origin` keep out pages of other sites that a
user has open (cross-site requests and WebSockets, DNS rebinding).
"""

from __future__ import annotations

import base64
import ipaddress
import secrets
import socket
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from palaestra.runtime.storage.user_keys import user_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

TOKEN = "token"
"""Name of the token in an address."""
KEY = "page.key"
"""File with the user's own token, beside the key of signatures."""

HEADERS = {
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    # the page's libraries evaluate templates, hence 'unsafe-eval'; nothing is loaded from elsewhere, and nothing is
    # sent there
    "Content-Security-Policy": "default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:; connect-src 'self' "
    "data: blob:; frame-ancestors 'none'; form-action 'self'; base-uri 'self'",
}

Headers = list[tuple[bytes, bytes]]


def new_token() -> str:
    """Returns an unguessable token."""
    return secrets.token_urlsafe(24)


def user_token() -> str:
    """Returns the user's own token, so that open tabs continue after a restart; else a new token."""
    key = user_key(KEY)
    return new_token() if key is None else base64.urlsafe_b64encode(key).decode().rstrip("=")


class Guests:
    """Guests, each invited to one game: a guest's token opens only this game."""

    def __init__(self) -> None:
        self._games: dict[str, str] = {}

    def invite(self, game: str) -> str:
        """Returns a token for a game; all its guests have the same token."""
        for token, known in self._games.items():
            if known == game:
                return token
        token = new_token()
        self._games[token] = game
        return token

    def __contains__(self, token: str) -> bool:
        return any(secrets.compare_digest(token.encode(), one.encode()) for one in self._games)

    def may_open(self, token: str, path: str, query: Mapping[str, str]) -> bool:
        """Whether a guest may open an address: the page of the guest's game, or something that this page loads."""
        if token not in self:
            return False
        return path.startswith(("/_nicegui", "/scene/")) or (path == "/play" and query == {"join": self._games[token]})


class Access:
    """ASGI middleware that refuses requests without a token, and requests for or from another site (403).

    The first request has the token in its address; the answer stores it in a cookie and leads to the same address
    without it.
    """

    def __init__(self, app: ASGIApp, token: str, port: int, hosts: Iterable[str], guests: Guests | None = None) -> None:
        """`hosts` are the names, beside IP addresses, under which the page may be opened."""
        self._app = app
        self._token = token
        self._port = port
        self._hosts = frozenset(host.lower() for host in hosts)
        self._cookie = f"palaestra-{port}"  # browsers share cookies between the ports of a host
        self._guests = Guests() if guests is None else guests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request, or hands it on."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers: Headers = list(scope["headers"])
        if (reason := self._foreign(headers)) is not None:
            await _refuse(scope, send, reason)
            return
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = dict(query).get(TOKEN)
        asks = given is not None and scope["type"] == "http" and scope["method"] in ("GET", "HEAD")
        if given is not None and asks and (self._equals(given) or given in self._guests):
            rest = urlencode([(key, value) for key, value in query if key != TOKEN])
            place = "/" + quote(scope["path"].lstrip("/\\")) + (f"?{rest}" if rest else "")
            await self._enter(send, place, given if given in self._guests else None)
            return
        guest = _cookie(headers, f"{self._cookie}-guest")
        if self._equals(_cookie(headers, self._cookie)) or self._guests.may_open(guest, scope["path"], dict(query)):
            await self._app(scope, receive, _with_headers(send))
            return
        reason = "open the address that 'palaestra view' printed: it ends with the token that this page asks for"
        await _refuse(scope, send, "this invitation is for one game" if guest in self._guests else reason)

    def _foreign(self, headers: Headers) -> str | None:
        """Returns why a request is for or from another site; None for the page's own requests."""
        (host, *more) = [value.decode("latin-1") for name, value in headers if name == b"host"] or [""]
        if more or not self._ours(host):
            return "this page is not served under that name"
        for name, value in headers:
            if name == b"origin" and urlsplit(value.decode("latin-1")).netloc.lower() != host.lower():
                return "this request comes from another site"
            if name == b"sec-fetch-site" and value == b"cross-site" and _fetch_mode(headers) != b"navigate":
                return "this request comes from another site"
        return None

    def _ours(self, host: str) -> bool:
        """Whether a `Host` header is an IP address, which no other site can have, or a name that was allowed."""
        try:
            place = urlsplit(f"//{host}")
            name = place.hostname or ""
            port = place.port
        except ValueError:
            return False
        if (port or 80) != self._port or place.username is not None:
            return False
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name in self._hosts
        return True

    def _equals(self, given: str) -> bool:
        return secrets.compare_digest(given.encode(), self._token.encode())

    async def _enter(self, send: Send, place: str, guest: str | None) -> None:
        """Stores the token in a cookie that scripts cannot read, and leads on."""
        name, token = (self._cookie, self._token) if guest is None else (f"{self._cookie}-guest", guest)
        cookie = f"{name}={token}; Path=/; HttpOnly; SameSite=Lax"
        headers = [
            (b"location", place.encode("latin-1")),
            (b"set-cookie", cookie.encode()),
            (b"referrer-policy", b"no-referrer"),
            (b"cache-control", b"no-store"),
        ]
        await send({"type": "http.response.start", "status": 303, "headers": headers})
        await send({"type": "http.response.body", "body": b""})


def names_of_this_machine() -> tuple[str, ...]:
    """Returns the names under which other machines may open a page that is bound to an address of this machine."""
    own = socket.gethostname()
    return ("localhost", own, own.partition(".")[0])


def _cookie(headers: Headers, name: str) -> str:
    text = "; ".join(value.decode("latin-1") for key, value in headers if key == b"cookie")
    try:
        found = SimpleCookie(text).get(name)
    except CookieError:
        return ""
    return "" if found is None else found.value


def _fetch_mode(headers: Headers) -> bytes:
    return next((value for name, value in headers if name == b"sec-fetch-mode"), b"")


async def _refuse(scope: Scope, send: Send, reason: str) -> None:
    """Answers 403; a WebSocket that is closed before it is accepted is answered so by the server."""
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": ""})
        return
    body = f"403: {reason}\n".encode()
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
    ]
    await send({"type": "http.response.start", "status": 403, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _with_headers(send: Send) -> Send:
    async def wrapped(message: Message) -> None:
        if message["type"] == "http.response.start":
            extra = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
            message = {**message, "headers": [*message["headers"], *extra]}
        await send(message)

    return wrapped
