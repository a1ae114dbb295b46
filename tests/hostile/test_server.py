"""Attacks on `navrl watch` over the network: each is refused, and the other viewers notice nothing."""

import json
import socket
import time

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from navrl.live.server import MOST_CONNECTIONS, MOST_MESSAGE_BYTES
from tests.live.serving import watching
from tests.runs import write_run

pytestmark = pytest.mark.hostile


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("served")
    write_run(path / "outputs/one")
    return path


@pytest.fixture(scope="module")
def server(folder):
    # Seconds, so that a test does not wait for what users would not notice.
    with watching(folder, before="import navrl.live.server as s; s.PATIENCE_S = 0.5") as found:
        yield found


def viewer(server, **options):
    """A WebSocket of a page of this server."""
    options = {"origin": server.url.rstrip("/"), "max_size": None, **options}
    return connect(f"ws://127.0.0.1:{server.port}/live", **options)


def sent(server, request, most_s=5.0):
    """The answer to the bytes of a request, until the server closes or falls silent."""
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.settimeout(most_s)
        connection.sendall(request)
        found = b""
        try:
            while part := connection.recv(65536):
                found += part
        except (TimeoutError, ConnectionResetError):
            pass
        return found


def get(path, host="localhost", more=""):
    return f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{more}\r\n".encode()


def works(server):
    """Whether the page is served, and a viewer gets the list."""
    assert sent(server, get("/")).startswith(b"HTTP/1.1 200")
    with viewer(server) as socket:
        assert [row["name"] for row in json.loads(socket.recv(timeout=10))["runs"]] == ["one"]
    return True


@pytest.mark.parametrize("origin", ["http://evil.example", "null", None])
def test_pages_of_others_open_no_socket(server, origin):
    with pytest.raises(InvalidStatus, match="403"):
        viewer(server, origin=origin)
    assert works(server)


@pytest.mark.parametrize(
    "path",
    [
        *("/flights/../../etc/passwd", "/flights/..%2f..%2fetc%2fpasswd", "//etc/passwd"),
        *("/flights/%00", "/../outputs/one/config.yaml", "http://evil.example/etc/passwd", "*"),
    ],
)
def test_no_path_leads_to_a_file(server, path):
    answer = sent(server, get(path))
    assert answer.split(b" ")[1] in (b"400", b"403", b"404"), answer
    assert b"root:" not in answer
    assert b"agent" not in answer


@pytest.mark.parametrize(
    "request_bytes",
    [
        *(b"\x16\x03\x01 a TLS hello", b"GET / HTTP/1.1\r\n\r\n", b"\x00" * 70_000),
        get("/", more=f"X: {'a' * 100_000}\r\n"),
        get("/", host="evil.example"),
        get("/", more="Host: localhost\r\n"),
        b"POST /runs/x/request/stop HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\n"
        b"Content-Length: 10000000\r\n\r\n" + b"x" * 1_000_000,
    ],
)
def test_requests_that_no_browser_sends_are_refused(server, request_bytes):
    answer = sent(server, request_bytes)
    assert not answer or answer.split(b" ")[1] in (b"400", b"403", b"413", b"431"), answer[:200]
    assert works(server)


def closing_code(server, messages):
    """The code with which the server ends a connection that sends these messages."""
    with viewer(server) as socket:
        try:
            for message in messages:
                socket.send(message)
            while True:
                socket.recv(timeout=10)
        except ConnectionClosed as closed:
            return closed.rcvd.code


def test_messages_that_are_too_large_end_their_connection(server):
    fragments = ["x" * 1000] * (MOST_MESSAGE_BYTES // 1000 + 2)
    assert closing_code(server, ["x" * (MOST_MESSAGE_BYTES + 1)]) == 1009
    assert closing_code(server, [iter(fragments)]) == 1009
    assert works(server)


def test_messages_that_make_no_sense_end_their_connection(server):
    nonsense = ["", "[", "[" * 50_000, "1", '{"ids": [1]}', '{"ids": ["../../x"], "follows": true}']
    assert closing_code(server, 10 * nonsense) == 4003
    assert works(server)


def test_a_thousand_connections_are_refused_in_order(server, folder):
    with viewer(server) as socket:
        (row,) = json.loads(socket.recv(timeout=10))["runs"]
        socket.send(json.dumps({"ids": [row["id"]], "follows": False}))
        assert "page" in json.loads(socket.recv(timeout=10))
        others = [_opened(server) for _ in range(1000)]
        try:
            for other in others:
                other.settimeout(5.0)
            # The places of those that send no request are free again soon, so later ones may get one.
            refused = [other for other in others[: 4 * MOST_CONNECTIONS] if _is_refused(other)]
            assert len(refused) >= 3 * MOST_CONNECTIONS
            (folder / "outputs/one/notes.json").write_text('{"tags": ["seen"], "note": ""}')
            deadline = time.monotonic() + 10
            while "seen" not in socket.recv(timeout=10):
                assert time.monotonic() < deadline
        finally:
            for other in others:
                other.close()
    assert works(server)


def _opened(server):
    return socket.create_connection(("127.0.0.1", server.port))


def _is_refused(connection):
    """Whether the server answers that there are too many, to a connection that asked for nothing."""
    try:
        return connection.recv(1000).startswith(b"HTTP/1.1 503")
    except OSError:
        return False


def test_connections_that_send_half_a_request_are_cut(server):
    started = time.monotonic()
    assert sent(server, b"GET / HTTP/1.1\r\nHost: loc", most_s=10) == b""
    assert time.monotonic() - started < 5


def test_a_viewer_that_does_not_read_is_cut(server, folder):
    with socket.create_connection(("127.0.0.1", server.port)) as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.sendall(40_000 * b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        before = server.memory_mb
        deadline = time.monotonic() + 20
        while True:
            assert time.monotonic() < deadline
            assert server.memory_mb < before + 100
            try:
                slow.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", socket.MSG_DONTWAIT)
            except BlockingIOError:
                time.sleep(0.05)
            except OSError:
                break  # cut
    assert works(server)


def test_pings_without_end_fill_no_memory(server):
    frame = b"\x89\xfd" + b"\0\0\0\0" + b"x" * 125  # masked with zeros
    with socket.create_connection(("127.0.0.1", server.port)) as slow:
        key = "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n"
        upgrade = f"Connection: Upgrade\r\nUpgrade: websocket\r\nOrigin: http://localhost\r\n{key}"
        slow.sendall(f"GET /live HTTP/1.1\r\nHost: localhost\r\n{upgrade}\r\n".encode())
        before = server.memory_mb
        slow.settimeout(0.2)
        deadline = time.monotonic() + 20
        try:
            while time.monotonic() < deadline:
                try:
                    slow.sendall(500 * frame)
                except TimeoutError:
                    slow.sendall(b"\0")  # out of step: an invalid frame, if anything is read at all
        except OSError:
            pass  # cut
    assert time.monotonic() < deadline
    assert server.memory_mb < before + 100
    assert works(server)


def test_elsewhere_than_on_loopback_a_token_is_needed(folder):
    with watching(folder, "--token") as server:
        token = server.url.partition("token=")[2]
        assert len(token) >= 32
        assert sent(server, get("/")).startswith(b"HTTP/1.1 403")
        assert sent(server, get(f"/?token={token[:-1]}x")).startswith(b"HTTP/1.1 403")
        with pytest.raises(InvalidStatus, match="403"):
            connect(f"ws://127.0.0.1:{server.port}/live?token={token}", origin="http://127.0.0.1")
        cookie = f"Cookie: navrl-{server.port}={token}\r\n"
        assert sent(server, get("/", more=cookie)).startswith(b"HTTP/1.1 200")
        assert sent(server, get("/", host="gpu7.lab", more=cookie)).startswith(b"HTTP/1.1 200")
