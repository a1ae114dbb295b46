"""A flight of a drone that goes on: the player's stick in, frames for the page out, one decision each.

The stick is a velocity over the map; the env's action is the same velocity in the frame of the goal.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import torch
from tensordict import TensorDictBase
from torchrl.envs.utils import step_mdp

from navrl.config.checks import ConfigError
from navrl.config.compose import compose
from navrl.envs.navigation.env import NavigationEnv
from navrl.envs.navigation.sim.state import NavigationState, heading, to_goal_frame
from navrl.live.play.fight import number_in
from navrl.live.play.record import Replays, save
from navrl.live.play.session import SPEEDS
from navrl.run.build import build_env
from navrl.storage.files import write_atomically
from navrl.view.navigation_page import navigation_data, navigation_page, outcome, packed_ranges
from navrl.view.navigation_recording import (
    KNOT_S,
    SIGHT_M,
    Frame,
    NavigationRecording,
    Trip,
    frame_of,
    landscape_of,
    of_env,
    point_of,
    trip_of,
)

_FIXED = ("device", "compile")
_REACHED, _FAST, _DIRECT = 1000, 500, 300  # points


def configuration(overrides: Sequence[str]) -> Any:
    """Return the configuration of the flights: that of navrl train, in worlds that training never sees."""
    for word in overrides:
        key = word.lstrip("+~").partition("=")[0]
        if key in _FIXED:
            raise ConfigError(f"{word}: navrl play decides {key} itself; leave it out")
    own = ["device=cpu", "compile=off", "env.held_out=true", "world.count=4"]
    chosen = [] if any(word.startswith("env=") for word in overrides) else ["env=navigation"]
    return compose("train", [*chosen, *own, *overrides])


class DroneTrip:
    """One flight, from its start to its end."""

    def __init__(self, config: Any, *, seed: int, games: DroneGames) -> None:
        self._config, self._seed, self._games = config, seed, games
        env = build_env(config, num_envs=1, seed=seed, compile_mode="off")
        self._env = cast(NavigationEnv, env)
        self._params = self._env.params
        self.tick_s = self._env.decision_s
        self.over = False
        self._rows: list[TensorDictBase] = []
        self._stick, self._number = (0.0, 0.0, 0.0), 0
        self._latest: TensorDictBase = self._env.reset()
        self._frames = [self._frame_now()]
        self._outcome = "timeout"
        self._folder: Path | None = None
        self._writing = threading.Lock()

    @property
    def _state(self) -> NavigationState:
        state: NavigationState = self._env.state
        return state

    def opening(self) -> dict[str, Any]:
        """Return everything that the page needs before the first frame."""
        data = navigation_data(
            self._recorded([]), 0, title="you fly", subtitle=f"{self._place}, seed {self._seed}"
        )
        return {
            **data,
            "tick": self.tick_s,
            "timeLimit": self._params.time_limit_s,
        }

    @property
    def _place(self) -> str:
        shielded = not str(self._config.shield._target_).endswith(".NoShield")
        return "navigation with a shield" if shielded else "navigation"

    def command(self, message: Mapping[str, Any]) -> None:
        """Take over the stick: east, north and up over the speed limit."""
        self._stick = cast(
            tuple[float, float, float],
            tuple(number_in(message, name, -1.0, 1.0) for name in ("east", "north", "up")),
        )
        self._number = int(number_in(message, "number", 0, 1 << 53))

    def step(self) -> dict[str, Any]:
        """Fly one decision and return its frame."""
        stick = torch.tensor(self._stick).unsqueeze(1)
        action = to_goal_frame(heading(self._params, self._state), stick)
        self._latest.set("action", action.clamp(-1.0, 1.0).t().contiguous())
        with torch.no_grad():
            stepped = self._env.step(self._latest)
        self._rows.append(stepped)
        self._latest = step_mdp(stepped)
        frame = self._frame_now()
        self.over = bool(stepped["next", "done"])
        every = max(1, round(KNOT_S / self.tick_s))
        if self.over or frame.decision % every == 0:
            self._frames.append(frame)
        if self.over:
            ends = stepped["next", "episode"][0].tolist()
            rates = dict(zip(self._env.episode_keys, ends, strict=True))
            self._outcome = next(name for name in self._env.rate_names if rates[name] > 0.5)
            self._direct = rates["spl"]
        return self._message(frame)

    def graph(self, me: int) -> None:
        """Return nothing: a drone has no space-time graph."""

    def close(self) -> dict[str, Any]:
        """Save a flight that is over, and return what the page shows of it."""
        if not self.over:
            return {"left": True}
        trip = self._trip()
        lines = self._score(trip)
        facts = {
            "pilot": self._games.pilot,
            "seed": self._seed,
            "ended": trip.outcome,
            "seconds": trip.time_s[-1],
            "score": sum(points for _, points in lines),
        }
        rollout = torch.stack(self._rows, 1)
        self._folder = save("navigation", rollout, self._config, facts)
        self._rows = []
        self._games.replays.keep(self._folder.name, self)
        return {
            "left": False,
            "kind": trip.outcome,
            "text": outcome(trip),
            "score": lines,
            "folder": str(self._folder),
            "replay": f"replay/{self._folder.name}",
        }

    def _score(self, trip: Trip) -> list[tuple[str, int]]:
        if trip.reached_s is None:
            return []
        left = max(0.0, 1.0 - trip.reached_s / self._params.time_limit_s)
        return [
            ("goal reached", _REACHED),
            ("quickly", round(_FAST * left)),
            ("on a short way", round(_DIRECT * self._direct)),
        ]

    def replay(self) -> Path:
        """Return the replay, after writing it."""
        assert self._folder is not None  # only saved flights are kept
        path = self._folder / "replay.html"
        with self._writing:
            if not path.exists():
                recorded = self._recorded([self._trip()])
                text = navigation_page(
                    recorded, 0, title="a flight of yours", subtitle=f"seed {self._seed}"
                )
                write_atomically(path, text)
        return path

    # ---- recordings -----------------------------------------------------------------------------

    def _frame_now(self) -> Frame:
        decision = int(self._state.decision[0])
        return of_env(frame_of(self._params, decision, self._state), 0)

    def _trip(self) -> Trip:
        start, goal = (point_of(place[:, 0]) for place in (self._state.start, self._state.goal))
        return trip_of(self._params, 0, 0, start, goal, self._frames, self._outcome)

    def _recorded(self, trips: list[Trip]) -> NavigationRecording:
        """Return the recording of these trips, or of the opening alone."""
        world = int(self._state.world[0])
        landscape = landscape_of(self._env.worlds.openings.worlds, world)
        if not trips:
            first = self._frames[0]
            # A moving obstacle that has not moved yet is no track.
            still = first._replace(movers=first.movers[:, :0])
            start, goal = (point_of(place[:, 0]) for place in (self._state.start, self._state.goal))
            trips = [trip_of(self._params, 0, 0, start, goal, [still], "timeout")]
        return NavigationRecording(self._params, [landscape], trips)

    def _message(self, frame: Frame) -> dict[str, Any]:
        apart_m = (frame.movers[:2] - frame.position[:2, None]).square().sum(0).sqrt()
        near = (apart_m < SIGHT_M).nonzero().flatten().tolist()
        changed = frame.changed - self._frames[-2 if self._frames[-1] is frame else -1].changed
        lidar = self._params.lidar
        ranges = frame.ranges.reshape(1, lidar.beams, lidar.rings)
        return {
            "t": round(frame.decision * self.tick_s, 3),
            "place": [round(value, 3) for value in frame.position.tolist()],
            "velocity": [round(value, 3) for value in frame.velocity.tolist()],
            "beam0": round(float(torch.atan2(frame.beam0[1], frame.beam0[0])), 4),
            "scan": packed_ranges(ranges, lidar.range_m),
            "clearance": round(float(frame.clearance), 3),
            "changed": round(float(changed), 3),
            "movers": [
                [which, *(round(value, 3) for value in frame.movers[:, which].tolist())]
                for which in near
            ],
            "number": self._number,
            "over": self.over,
        }


class DroneGames:
    """Flights of one player."""

    def __init__(self, *, pilot: str, overrides: Sequence[str], seed: int) -> None:
        self.pilot = pilot
        self._config = configuration(overrides)
        self._seeds = itertools.count(seed)
        self.replays = Replays()
        self._lock = threading.Lock()

    def data(self) -> dict[str, Any]:
        """Return what the page needs before the first flight."""
        return {"title": "navrl play", "speeds": SPEEDS}

    def make(self, message: Mapping[str, Any]) -> DroneTrip:
        """Begin another flight."""
        with self._lock:
            seed = next(self._seeds)
        return DroneTrip(self._config, seed=seed, games=self)
