"""A game of one player: the clock that ticks it, and the messages between it and the page.

A session runs in a thread of its own. What comes from the page is put into `inbox`; what goes to the page is
given to `send`, which must not wait.
"""

from __future__ import annotations

import logging
import queue
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from navrl.config.checks import ConfigError, printable

_LOG = logging.getLogger(__name__)

SPEEDS = (0.25, 0.5, 1.0, 2.0, 4.0)
GRAPH_S = 0.25  # at least, between two graphs
_LATEST_S = (
    0.25  # a clock that is later than this goes on from now: the game runs slower than asked
)
_MOST_WAITING = 1000  # messages of a page that were not looked at yet

Message = Mapping[str, Any]


class Game(Protocol):
    """A game that a session ticks."""

    tick_s: float
    over: bool

    def opening(self) -> dict[str, Any]:
        """Return what the page needs before the first frame."""

    def command(self, message: Message) -> None:
        """Take over the player's controls, or raise ConfigError."""

    def step(self) -> dict[str, Any]:
        """Fly one tick and return its frame."""

    def graph(self, me: int) -> dict[str, Any] | None:
        """Return what is computed less often, for one of the aircraft."""

    def close(self) -> dict[str, Any]:
        """Record the game, which is over or was given up, and return its result."""


MakeGame = Callable[[Message], Game]


class Session:
    """A player's games, one after the other."""

    def __init__(self, make: MakeGame, send: Callable[[dict[str, Any]], None]) -> None:
        self.inbox: queue.Queue[Message | None] = queue.Queue(_MOST_WAITING)
        self._make, self._send = make, send
        self._game: Game | None = None
        self._running = False
        self._speed = 1.0
        self._selected = 0
        self._due_s = self._graph_s = 0.0
        self._open = True

    def put(self, message: Message | None) -> bool:
        """Hand over a message of the page, None for its end; return whether there is room for it."""
        try:
            self.inbox.put_nowait(message)
        except queue.Full:
            return False
        return True

    def run(self) -> None:
        """Play until the page is gone."""
        try:
            while self._open:
                self._take()
                if self._running and time.monotonic() >= self._due_s:
                    self._tick()
        except Exception as error:  # noqa: BLE001  (the other sessions go on)
            _LOG.exception("a game ended by an error of its own")
            self._send({"type": "error", "sentence": f"the game broke off: {printable(error)}"})
        finally:
            self._finish()

    def _take(self) -> None:
        """Answer what the page has sent until the next tick is due."""
        wait_s = max(0.0, self._due_s - time.monotonic()) if self._running else None
        try:
            message = self.inbox.get(timeout=wait_s)
            while True:
                self._answer(message)
                message = self.inbox.get_nowait()
        except queue.Empty:
            return

    def _answer(self, message: Message | None) -> None:
        if message is None:
            self._open = self._running = False
            return
        answers: dict[Any, Callable[[Message], None]] = {
            "new": self._new,
            "stick": self._stick,
            "pause": self._pause,
            "go": self._go,
            "speed": self._set_speed,
            "select": self._select,
        }
        kind = message.get("type")
        try:
            if type(kind) is not str or kind not in answers:
                raise ConfigError(f"type = {kind!r:.40}; expected one of {', '.join(answers)}")
            answers[kind](message)
        except (ConfigError, OSError, ImportError) as error:
            self._send({"type": "error", "sentence": printable(error)})

    def _new(self, message: Message) -> None:
        """Begin another game; the one before is given up."""
        game = self._make(message)  # or raise, and the game before goes on
        self._finish()
        self._game, self._selected = game, 0
        self._send({"type": "opening", **self._game.opening()})
        self._send_graph()

    def _stick(self, message: Message) -> None:
        if self._game is not None:
            self._game.command(message)

    def _pause(self, message: Message) -> None:
        self._running = False

    def _go(self, message: Message) -> None:
        if self._game is None or self._game.over:
            return
        self._running = True
        self._due_s = time.monotonic()

    def _set_speed(self, message: Message) -> None:
        speed = message.get("speed")
        if speed not in SPEEDS:
            raise ConfigError(
                f"speed = {speed!r:.40}; expected one of {', '.join(map(str, SPEEDS))}"
            )
        self._speed = float(speed)

    def _select(self, message: Message) -> None:
        """Choose the aircraft whose graph is shown."""
        index = message.get("index")
        if type(index) is not int:
            raise ConfigError(f"index = {index!r:.40}; expected the number of an aircraft")
        self._selected = index
        self._send_graph()

    def _tick(self) -> None:
        game = self._game
        assert game is not None  # else it would not run
        self._send({"type": "frame", **game.step()})
        now_s = time.monotonic()
        self._due_s = max(self._due_s + game.tick_s / self._speed, now_s - _LATEST_S)
        if game.over:
            self._send_graph()
            self._finish()
        elif now_s >= self._graph_s:
            self._send_graph()

    def _send_graph(self) -> None:
        if self._game is None:
            return
        began_s = time.monotonic()
        graph = self._game.graph(self._selected)
        if graph is not None:
            self._send({"type": "graph", **graph})
        # No more than a third of the time goes into graphs, however slow the machine is.
        taken_s = time.monotonic() - began_s
        self._graph_s = began_s + max(GRAPH_S, 3.0 * taken_s)

    def _finish(self) -> None:
        """Record the game and show its result, if there is one."""
        game, self._game, self._running = self._game, None, False
        if game is not None:
            self._send({"type": "result", **game.close()})
