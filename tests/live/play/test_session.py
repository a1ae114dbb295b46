"""The clock of a game, and the messages between it and its page."""

import threading
import time

import pytest

from navrl.config.checks import ConfigError
from navrl.live.play.session import SPEEDS, Session


class Counted:
    """A game of `length` ticks of 20 ms that counts what happens to it."""

    tick_s = 0.02

    def __init__(self, length):
        self.length, self.ticks, self.sticks, self.closed, self.graphs = length, 0, [], 0, []

    @property
    def over(self):
        return self.ticks >= self.length

    def opening(self):
        return {"length": self.length}

    def command(self, message):
        if "rudder" not in message:
            raise ConfigError("no rudder")
        self.sticks.append(message["rudder"])

    def step(self):
        self.ticks += 1
        if self.length < 0:
            raise RuntimeError("out of fuel")
        return {"t": self.ticks}

    def graph(self, me):
        self.graphs.append(me)
        return {"me": me}

    def close(self):
        self.closed += 1
        return {"ticks": self.ticks}


@pytest.fixture
def playing():
    """playing() -> a session in its thread, its games, and what it has sent."""
    threads = []

    def begin():
        games, sent = [], []

        def make(message):
            if message.get("length") is None:
                raise ConfigError("no length")
            games.append(Counted(message["length"]))
            return games[-1]

        session = Session(make, sent.append)
        threads.append((session, threading.Thread(target=session.run, daemon=True)))
        threads[-1][1].start()
        return session, games, sent

    yield begin
    for session, thread in threads:
        session.put(None)
        thread.join(5.0)
        assert not thread.is_alive()


def until(condition, most_s=5.0):
    deadline = time.monotonic() + most_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def kinds(sent):
    return [message["type"] for message in list(sent)]


def test_a_game_from_its_opening_to_its_result(playing):
    session, games, sent = playing()
    for message in ({"type": "new", "length": 5}, {"type": "go"}):
        session.put(message)
    until(lambda: "result" in kinds(sent))
    assert kinds(sent)[:2] == ["opening", "graph"]
    assert [message["t"] for message in sent if message["type"] == "frame"] == [1, 2, 3, 4, 5]
    assert kinds(sent)[-2:] == ["graph", "result"]
    assert sent[-1] == {"type": "result", "ticks": 5}
    session.put({"type": "go"})
    session.put({"type": "stick", "rudder": 1.0})
    time.sleep(0.05)
    assert games[0].ticks == 5, "what is over goes on no more"
    assert games[0].closed == 1


def test_nothing_moves_in_a_pause(playing):
    session, games, _ = playing()
    session.put({"type": "new", "length": 10_000})
    session.put({"type": "go"})
    until(lambda: games and games[0].ticks >= 3)
    session.put({"type": "pause"})
    time.sleep(0.03)
    before = games[0].ticks
    time.sleep(0.15)
    assert games[0].ticks == before
    session.put({"type": "go"})
    until(lambda: games[0].ticks > before)


@pytest.mark.parametrize("speed", [0.5, 4])
def test_the_game_keeps_the_time_of_its_speed(playing, speed):
    session, games, _ = playing()
    session.put({"type": "new", "length": 10_000})
    session.put({"type": "speed", "speed": speed})
    session.put({"type": "go"})
    until(lambda: games and games[0].ticks)
    began, first = time.monotonic(), games[0].ticks
    time.sleep(0.6)
    passed = (games[0].ticks - first) * 0.02
    assert passed == pytest.approx(speed * (time.monotonic() - began), rel=0.4)


def test_another_game_ends_the_one_before(playing):
    session, games, sent = playing()
    session.put({"type": "new", "length": 100})
    session.put({"type": "new", "length": 3})
    session.put({"type": "go"})
    until(lambda: kinds(sent).count("result") == 2)
    assert [game.closed for game in games] == [1, 1]
    assert [game.ticks for game in games] == [0, 3]


def test_the_page_that_leaves_ends_its_game(playing):
    session, games, _ = playing()
    session.put({"type": "new", "length": 10_000})
    session.put({"type": "go"})
    until(lambda: games and games[0].ticks)
    session.put(None)
    until(lambda: games[0].closed)


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        ({}, "type = None; expected one of new, stick"),
        ({"type": ["new"]}, "expected one of new, stick"),
        ({"type": "exit"}, "type = 'exit'"),
        ({"type": "new"}, "no length"),
        ({"type": "speed", "speed": 100}, f"expected one of {', '.join(map(str, SPEEDS))}"),
        ({"type": "speed", "speed": {}}, "speed = {}"),
        ({"type": "select", "index": "0"}, "index = '0'"),
        ({"type": "stick"}, "no rudder"),
    ],
)
def test_a_message_that_makes_no_sense_is_answered_in_a_sentence(playing, message, sentence):
    session, games, sent = playing()
    session.put({"type": "new", "length": 4})
    session.put(message)
    until(lambda: "error" in kinds(sent))
    assert sentence in sent[kinds(sent).index("error")]["sentence"]
    session.put({"type": "go"})
    until(lambda: "result" in kinds(sent))
    assert games[0].ticks == 4, "and the game goes on"


def test_a_game_that_breaks_says_so(playing):
    session, games, sent = playing()
    session.put({"type": "new", "length": 10})
    until(lambda: games)
    games[0].step = lambda: 1 // 0
    session.put({"type": "go"})
    until(lambda: "result" in kinds(sent))
    assert "the game broke off" in sent[kinds(sent).index("error")]["sentence"]


def test_an_inbox_that_is_full_takes_no_more():
    session = Session(lambda message: Counted(1), lambda message: None)
    assert all(session.put({"type": "pause"}) for _ in range(1000))
    assert not session.put({"type": "pause"})
