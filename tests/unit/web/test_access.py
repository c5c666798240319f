"""Who may see the page."""

from typing import Any

import pytest
from asgi_client import Answer, call, opens

from palaestra.web.access import Access, Guests

PORT, TOKEN = 8600, "right-token"
HOME = f"http://127.0.0.1:{PORT}"
HOST = ("host", f"127.0.0.1:{PORT}")
COOKIE = ("cookie", f"palaestra-{PORT}={TOKEN}")


async def inside(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.accept"})
        return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"inside"})


def guarded(*hosts: str) -> Access:
    return Access(inside, TOKEN, PORT, ("localhost", *hosts))


def get(
    *headers: tuple[str, str], path: str = "/", query: str = "", method: str = "GET", hosts: tuple[str, ...] = ()
) -> Answer:
    return call(guarded(*hosts), path, query, list(headers), method)


def test_without_the_token_everything_is_forbidden():
    answer = get(HOST)
    assert answer.status == 403
    assert "inside" not in answer.text
    assert "the address that 'palaestra view' printed" in answer.text
    assert get(HOST, path="/anything", method="POST").status == 403


@pytest.mark.parametrize("wrong", ["", "right-toke", "right-token2", "RIGHT-TOKEN", "%C3%BC"])
def test_a_wrong_token_is_forbidden(wrong: str):
    assert get(HOST, query=f"token={wrong}").status == 403
    assert get(HOST, ("cookie", f"palaestra-{PORT}={wrong}")).status == 403


def test_the_token_of_another_port_is_forbidden():
    assert get(HOST, ("cookie", f"palaestra-{PORT + 1}={TOKEN}")).status == 403


def test_the_token_in_the_address_does_not_open_other_methods():
    assert get(HOST, query=f"token={TOKEN}", method="POST").status == 403


def test_the_token_in_the_address_becomes_a_cookie_and_leaves_the_address():
    answer = get(HOST, path="/run", query=f"id=a%2Fb&token={TOKEN}")
    assert answer.status == 303
    assert answer.headers["location"] == "/run?id=a%2Fb"
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    assert answer.headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize("path", ["//evil.example/x", "///evil.example", "/\\evil.example", "/\r\nx: y"])
def test_the_answer_to_a_token_never_leads_to_another_site(path: str):
    place = get(HOST, path=path, query=f"token={TOKEN}").headers["location"]
    assert place.startswith("/")
    assert place[1:2] not in ("/", "\\")
    assert "\n" not in place


def test_the_cookie_opens_the_page_and_every_answer_carries_the_protecting_headers():
    answer = get(HOST, COOKIE)
    assert answer.text == "inside"
    assert answer.headers["x-frame-options"] == "DENY"
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8600",
        "127.0.0.1.evil.example:8600",
        "127.0.0.1:8601",
        "",
        "127.0.0.1:8600@evil.example",
        "127.0.0.1:x",
    ],
)
def test_a_foreign_host_is_refused_even_with_the_token(host: str):
    assert get(("host", host), COOKIE).status == 403
    assert get(("host", host), query=f"token={TOKEN}").status == 403


def test_a_request_with_two_hosts_or_none_is_refused():
    assert get(HOST, ("host", "evil.example"), COOKIE).status == 403
    assert get(COOKIE).status == 403


@pytest.mark.parametrize("host", [f"127.0.0.1:{PORT}", f"localhost:{PORT}", f"LOCALHOST:{PORT}", f"[::1]:{PORT}"])
def test_the_own_addresses_are_taken(host: str):
    assert get(("host", host), COOKIE).status == 200


def test_a_name_of_this_machine_is_taken_only_where_it_was_allowed():
    assert get(("host", f"box:{PORT}"), COOKIE).status == 403
    assert get(("host", f"box:{PORT}"), COOKIE, hosts=("Box",)).status == 200


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "http://127.0.0.1:8601", "null", "http://localhost:8600", "http://127.0.0.1", ""]
)
def test_requests_of_other_sites_are_refused(origin: str):
    assert get(HOST, ("origin", origin), COOKIE).status == 403


def test_requests_of_the_page_itself_are_taken():
    assert get(HOST, ("origin", HOME), COOKIE).status == 200
    assert get(HOST, ("sec-fetch-site", "same-origin"), COOKIE).status == 200


def test_another_site_may_link_to_the_page_but_not_fetch_from_it():
    assert get(HOST, ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate"), COOKIE).status == 200
    assert get(HOST, ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors"), COOKIE).status == 403


def test_websockets_are_refused_in_the_same_way():
    assert opens(guarded(), "/ws", [HOST, COOKIE, ("origin", HOME)])
    assert not opens(guarded(), "/ws", [HOST])
    assert not opens(guarded(), "/ws", [HOST, ("cookie", f"palaestra-{PORT}=wrong")])
    assert not opens(guarded(), "/ws", [HOST, COOKIE, ("origin", "http://evil.example")])
    assert not opens(guarded(), "/ws", [("host", f"evil.example:{PORT}"), COOKIE])


def test_a_guest_opens_the_game_of_the_invitation_and_nothing_else():
    guests = Guests()
    token = guests.invite("key")
    assert guests.invite("key") == token != guests.invite("other")
    page = Access(inside, TOKEN, PORT, ("localhost",), guests)
    entered = call(page, "/play", f"join=key&token={token}", [HOST], "GET")
    assert entered.headers["location"] == "/play?join=key"
    name, value = entered.headers["set-cookie"].partition(";")[0].split("=")
    assert (name, value) == (f"palaestra-{PORT}-guest", token)
    cookie = ("cookie", f"{name}={token}")
    for path, query in (
        ("/play", "join=key"),
        ("/_nicegui/3.0/x.js", ""),
        ("/_nicegui_ws/socket.io/", "a=1"),
        ("/scene/abc", ""),
    ):
        assert call(page, path, query, [HOST, cookie], "GET").status == 200
    for path, query in (
        ("/", ""),
        ("/play", "join=other"),
        ("/play", ""),
        ("/play", "join=key&run=first"),
        ("/run", "id=a"),
    ):
        answer = call(page, path, query, [HOST, cookie], "GET")
        assert answer.status == 403
        assert "for one game" in answer.text
    assert call(page, "/play", "join=key", [HOST, ("cookie", f"{name}={token}x")], "GET").status == 403
    assert call(page, "/play", "join=key", [HOST, ("cookie", f"palaestra-{PORT}={token}")], "GET").status == 403
