"""Pages that mean harm to `navrl play`: each loses its own session, and the others fly on."""

import contextlib
import json
import threading
import time
import urllib.error
import urllib.request

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from navrl.live.play.app import MOST_SESSIONS
from navrl.live.server import MOST_MESSAGE_BYTES
from tests.browser.playing import served

pytestmark = [pytest.mark.hostile, pytest.mark.timeout(240)]
NEW = {
    **{"type": "new", "opponent": "straight", "own": None, "team_size": 1},
    **{"wingman": "crank", "difficulty": "normal"},
}


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    with served(tmp_path_factory.mktemp("play"), "scenario.range_m=[40000,41000]") as found:
        yield found


@contextlib.contextmanager
def visitor(address, **options):
    """An open connection as from the page."""
    url = address.replace("http", "ws") + "live"
    with connect(url, origin=address.rstrip("/"), max_size=None, **options) as socket:
        yield socket


def received(socket, kind, most_s=30.0):
    """The next message of this type."""
    deadline_s = time.monotonic() + most_s
    while time.monotonic() < deadline_s:
        message = json.loads(socket.recv(timeout=most_s))
        if message["type"] == kind:
            return message
    raise AssertionError(kind)


def flying(socket):
    """Begin a fight on this connection."""
    for message in (NEW, {"type": "go"}):
        socket.send(json.dumps(message))
    received(socket, "frame")


def closed_while(socket, message, *, times, most_s=20.0):
    """Whether the server closes the connection after these messages."""
    deadline_s = time.monotonic() + most_s
    try:
        for _ in range(times):
            socket.send(message)
        while time.monotonic() < deadline_s:
            socket.recv(timeout=most_s)
    except ConnectionClosed:
        return True
    return False


def fly_soon(address):
    """Fly as soon as there is room: games under way have to notice that their page is gone."""
    deadline_s = time.monotonic() + 20.0
    while time.monotonic() < deadline_s:
        with visitor(address) as socket, contextlib.suppress(ConnectionClosed):
            flying(socket)
            return
        time.sleep(0.1)
    raise AssertionError("no room")


@pytest.fixture
def neighbour(address):
    """A session that has to fly on; in the end its game has gone on all the time."""
    with visitor(address) as socket:
        flying(socket)
        times, stop = [], threading.Event()

        def listen():
            while not stop.is_set():
                times.append(received(socket, "frame")["t"])

        thread = threading.Thread(target=listen)
        thread.start()
        yield
        seen = len(times)
        deadline_s = time.monotonic() + 10.0
        while len(times) < seen + 10:
            assert time.monotonic() < deadline_s, "the neighbour's game stands still"
            time.sleep(0.02)
        stop.set()
        thread.join()
        assert times == sorted(times)


GARBAGE = [
    *("", "{", "null", "[]", "7", '"new"', "{}", '{"type": []}', '{"type": "__class__"}'),
    *('{"type": "new"}', '{"type": "new", "opponent": "../../etc/passwd"}', "[" * 60_000),
    json.dumps({**NEW, "team_size": 10**9}),
    json.dumps({**NEW, "opponent": "checkpoint"}),
    json.dumps({**NEW, "opponent": "x" * 10_000}),
    '{"type": "stick", "rudder": NaN, "throttle": 1e999, "fire": true, "target": -1, "number": 0}',
    '{"type": "stick", "rudder": 1e308, "throttle": 0, "fire": 0, "target": 0.5, "number": -7}',
    '{"type": "select", "index": 99999999999999999999}',
    '{"type": "speed", "speed": 1e9}',
]


def test_garbage_costs_nobody_a_game(address, neighbour):
    with visitor(address) as socket:
        flying(socket)
        for text in GARBAGE:
            socket.send(text)
        before = received(socket, "frame")["t"]
        time.sleep(0.3)
        assert received(socket, "frame")["t"] >= before, "it can even fly on"


def test_who_sends_nothing_but_garbage_is_closed(address, neighbour):
    with visitor(address) as socket:
        assert closed_while(socket, b"\x00\xff", times=1000)


def test_an_oversized_message_ends_its_own_session(address, neighbour):
    with visitor(address) as socket:
        flying(socket)
        assert closed_while(socket, "x" * (MOST_MESSAGE_BYTES + 1), times=1)


def test_a_flood_ends_its_own_session(address, neighbour):
    with visitor(address) as socket, contextlib.suppress(ConnectionClosed):
        flying(socket)
        stick = {"type": "stick", "rudder": 1, "throttle": 1, "fire": True, "target": -1}
        for number in range(20_000):
            socket.send(json.dumps({**stick, "number": number}))


def test_pages_that_leave_in_the_middle_make_room(address, neighbour):
    for _ in range(2 * MOST_SESSIONS):
        with visitor(address) as socket, contextlib.suppress(ConnectionClosed):  # no room
            socket.send(json.dumps(NEW))
    fly_soon(address)


def seated(stack, address):
    """Open a session as soon as there is room; a page for which there is none gets a message at once."""
    deadline_s = time.monotonic() + 20.0
    while time.monotonic() < deadline_s:
        socket = stack.enter_context(visitor(address))
        try:
            socket.recv(timeout=0.3)
        except TimeoutError:
            return
        except ConnectionClosed:
            continue
    raise AssertionError("no room")


def test_one_session_too_many_gets_a_sentence(address):
    with contextlib.ExitStack() as stack:
        for _ in range(MOST_SESSIONS):
            seated(stack, address)
        late = stack.enter_context(visitor(address))
        assert f"{MOST_SESSIONS} games are going on" in received(late, "error")["sentence"]
        assert closed_while(late, "", times=0)
    fly_soon(address)


def test_pages_of_others_do_not_play(address):
    with pytest.raises(InvalidStatus):
        connect(address.replace("http", "ws") + "live", origin="http://evil.example")


@pytest.mark.parametrize(
    "path", ["replay/x", "replay/..%2f..%2fetc%2fpasswd", "replay/%2e%2e", "outputs/play", "live"]
)
def test_nothing_but_replays_of_own_fights_is_served(address, path):
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(address + path, timeout=10)
    assert caught.value.code in (403, 404)
