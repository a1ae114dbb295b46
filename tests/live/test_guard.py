"""Requests that reach a page: those of this server's own pages, complete, small and with the token."""

import pytest

from navrl.live import guard
from navrl.live.guard import MOST_BODY_BYTES, Guard
from tests.live.requests import ask, echo

PORT = 7425
OURS = {"origin": "http://localhost:7425"}


@pytest.fixture
def local():
    return Guard(echo, token=None, port=PORT)


@pytest.fixture
def distant():
    return Guard(echo, token="s3cret", port=PORT)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:7425", 200),
        ("127.0.0.1:9000", 200),  # the other end of a tunnel
        ("[::1]:7425", 200),
        ("LOCALHOST", 200),
        ("evil.example:7425", 403),  # which its owner let resolve to 127.0.0.1
        ("localhost.evil.example", 403),
        ("127.0.0.1.nip.io", 403),
        ("192.168.0.7:7425", 403),
        ("localhost@evil.example", 400),
        ("localhost:7425 evil", 400),
        ("a\r\nb", 400),
        ("", 400),
    ],
)
def test_the_server_answers_to_names_of_this_machine_only(local, host, status):
    assert ask(local, headers={"host": host}).status == status


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "http://localhost:7426",  # another server of this machine
        "http://localhost:7425.evil.example",
        "null",  # a frame in a sandbox
        "http://[",
        "",
    ],
)
def test_pages_of_others_change_nothing(local, origin):
    headers = {"origin": origin}
    assert ask(local, method="POST", headers=headers).status == 403
    assert ask(local, kind="websocket", headers=headers).status == 403
    assert ask(local, headers=headers).status == 403


def test_our_pages_may_change_things(local):
    assert ask(local, method="POST", headers=OURS, body=(b"a", b"b")).body == b"ab"
    assert ask(local, kind="websocket", headers=OURS).status == 101


def test_what_names_no_origin_changes_nothing(local):
    assert ask(local, method="POST").status == 403
    assert ask(local, kind="websocket").status == 403


def test_pages_of_others_embed_nothing_and_may_link_here(local):
    elsewhere = {"sec-fetch-site": "cross-site"}
    assert ask(local, headers={**elsewhere, "sec-fetch-mode": "no-cors"}).status == 403
    assert ask(local, headers={**elsewhere, "sec-fetch-mode": "navigate"}).status == 200


def test_answers_forbid_other_servers(local):
    policy = ask(local).headers["content-security-policy"].split("; ")
    assert "default-src 'none'" in policy
    assert "connect-src 'self' ws://localhost:7425 wss://localhost:7425" in policy
    assert "frame-ancestors 'self'" in policy


def test_every_request_needs_the_token(distant):
    named = {"host": "gpu7.lab:7425", "origin": "http://gpu7.lab:7425"}
    for cookie in (
        "",
        "navrl-7425=s3cre",
        "navrl-7425=s3cret2",
        "navrl-7426=s3cret",
        "navrl-7425=é",
    ):
        headers = {**named, "cookie": cookie}
        assert ask(distant, headers=headers).status == 403
        assert ask(distant, method="POST", headers=headers).status == 403
        assert ask(distant, kind="websocket", headers=headers).status == 403
    headers = {**named, "cookie": "a=b; navrl-7425=s3cret"}
    assert ask(distant, headers=headers).status == 200
    assert ask(distant, method="POST", headers=headers).status == 200
    assert ask(distant, kind="websocket", headers=headers).status == 101
    other = {**headers, "origin": "http://evil.example"}
    assert ask(distant, method="POST", headers=other).status == 403


def test_the_token_in_the_address_becomes_a_cookie(distant):
    answer = ask(distant, "/run/a", query="token=s3cret", headers={"host": "gpu7.lab:7425"})
    assert (answer.status, answer.headers["location"]) == (303, "/run/a")
    assert answer.headers["set-cookie"].startswith("navrl-7425=s3cret; HttpOnly;")
    assert ask(distant, "//evil.example", query="token=s3cret").headers["location"] == "/"
    assert ask(distant, query="token=wrong").status == 403
    # A link that somebody else made presses no button.
    pressed = ask(distant, method="POST", query="token=s3cret", headers=OURS)
    assert pressed.status == 403


def test_requests_are_small_and_arrive_in_time(local, monkeypatch):
    half = b"x" * (MOST_BODY_BYTES // 2)
    assert ask(local, method="POST", headers=OURS, body=(half, half)).body == half + half
    assert ask(local, method="POST", headers=OURS, body=(half, half, b"x")).status == 413
    assert ask(local, method="DELETE", headers=OURS).status == 405
    monkeypatch.setattr(guard, "BODY_S", 0.05)
    assert ask(local, method="POST", headers=OURS, body=()).status == 408
