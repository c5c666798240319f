"""Calls an ASGI application without a server."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any


def in_a_loop(work: Coroutine[Any, Any, None]) -> None:
    """Runs a coroutine in a thread of its own: tests in a browser leave a loop running in this one."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, work).result()


@dataclass
class Answer:
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    text: str = ""


def scope_of(kind: str, path: str, query: str, headers: list[tuple[str, str]], method: str = "GET") -> dict[str, Any]:
    raw = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]
    return {"type": kind, "method": method, "path": path, "query_string": query.encode("latin-1"), "headers": raw}


def call(
    app: Any, path: str, query: str = "", headers: list[tuple[str, str]] | None = None, method: str = "GET"
) -> Answer:
    """Sends a request; a header may come twice."""
    answer = Answer()

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            answer.status = message["status"]
            answer.headers = {name.decode(): value.decode("latin-1") for name, value in message["headers"]}
        else:
            answer.text += message.get("body", b"").decode()

    in_a_loop(app(scope_of("http", path, query, headers or [], method), receive, send))
    return answer


def opens(app: Any, path: str, headers: list[tuple[str, str]]) -> bool:
    """Whether a WebSocket is accepted."""
    sent: list[str] = []

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message["type"])

    in_a_loop(app(scope_of("websocket", path, "", headers), receive, send))
    return sent[0] == "websocket.accept"
