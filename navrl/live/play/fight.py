"""A fight that goes on: commands of the player in, frames for the page out, one tick of the simulator each.

Without a network and without a clock: `session.py` has both. Team 0 is the player's side and aircraft 0 the
player's own, unless a pilot flies the whole side and everybody watches.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import torch
from tensordict import TensorDictBase
from torch import Tensor
from torchrl.envs.utils import ExplorationType, set_exploration_type, step_mdp

from navrl.config.checks import ConfigError
from navrl.envs.combat.env import CombatEnv
from navrl.envs.combat.sim.state import CombatState, can_fire
from navrl.envs.core.packing import Packing, pack
from navrl.live.play.choice import DIFFICULTIES, Choice, own_pilot, pilot_label
from navrl.run.build import build_env
from navrl.run.transfer import OPPONENT
from navrl.view.combat_page import combat_data, fights, packed_graph
from navrl.view.combat_recording import (
    Event,
    Recording,
    knot_of,
    launch_knot,
    launched_between,
    recording,
    struck_between,
)
from navrl.view.spacetime import spacetime_graph

PLAYER = 0  # the player's aircraft
_MOST_TARGET = 8
_CHUNK = 200  # steps


class Stick(NamedTuple):
    """The controls of the player's aircraft."""

    rudder: float = 0.0  # -1 .. 1, positive turns left
    throttle: float = 1.0  # 0 .. 1
    fire: bool = False
    target: int = -1  # place among the enemies; -1: the nearest
    number: int = 0  # of the command, which frames repeat: the page sees how old its answer is


def stick_of(message: Mapping[str, Any]) -> Stick:
    """Return the controls in a message, or raise one sentence about what is wrong with it."""
    rudder = number_in(message, "rudder", -1.0, 1.0)
    throttle = number_in(message, "throttle", 0.0, 1.0)
    target, number = (message.get(name, -1) for name in ("target", "number"))
    if type(target) is not int or not -1 <= target < _MOST_TARGET:
        raise ConfigError(f"target = {target!r:.40}; expected -1 or the place of an enemy")
    if type(number) is not int or not 0 <= number < 1 << 53:
        raise ConfigError(f"number = {number!r:.40}; expected a whole number")
    if type(message.get("fire")) is not bool:
        raise ConfigError(f"fire = {message.get('fire')!r:.40}; expected true or false")
    return Stick(rudder, throttle, message["fire"], target, number)


def number_in(message: Mapping[str, Any], name: str, low: float, high: float) -> float:
    """Return a number of a message, or raise one sentence about what is wrong with it."""
    value: Any = message.get(name)
    if type(value) not in (int, float) or not math.isfinite(value) or not low <= value <= high:
        raise ConfigError(f"{name} = {value!r:.40}; expected a number from {low:g} to {high:g}")
    return float(value)


def _env_of(config: Any, seed: int) -> CombatEnv:
    """Build the env, or raise ConfigError with this command's word for the opponent."""
    try:
        return cast(CombatEnv, build_env(config, num_envs=1, seed=seed, compile_mode="off"))
    except ConfigError as error:
        raise ConfigError(str(error).replace(OPPONENT, "opponent")) from error


class CombatFight:
    """One fight, from its opening to its end."""

    def __init__(self, choice: Choice, config: Any, *, seed: int) -> None:
        self.choice, self.config, self.seed = choice, config, seed
        self.env = _env_of(config, seed)
        self.params = self.env.params
        self.tick_s: float = self.params.step_s
        self._rows: list[TensorDictBase] = []  # the newest steps, (1,) each
        self._chunks: list[TensorDictBase] = []  # those before, (1, _CHUNK) each
        self.stick = Stick()
        self.over = False
        self._pilot = own_pilot(choice, self.params)
        self._memories: Any = None
        self._latest: TensorDictBase = self.env.reset()
        state = self.env.combat_state
        self._packing, self._packed = Packing(state), [pack(state)]  # of the states so far
        self._flying: dict[
            tuple[int, int], int
        ] = {}  # number of the missile by carrier and channel
        self._launches = 0

    @property
    def playing(self) -> bool:
        """Return whether a person flies."""
        return self.choice.own is None

    @property
    def pilots(self) -> tuple[str, str]:
        """Return the names of both sides."""
        own = "you" if self.choice.own is None else pilot_label(self.choice.own)
        if self.playing and self.choice.team_size > 1:
            own = f"you with {pilot_label(self.choice.wingman)}"
        return own, pilot_label(self.choice.opponent)

    def opening(self) -> dict[str, Any]:
        """Return everything that the page needs before the first frame."""
        params, own = self.params, self.pilots
        data = combat_data(
            self.recorded(),
            spacetime_graph,
            title=f"{own[0]} against {own[1]}",
            subtitle=f"{self.choice.difficulty}, seed {self.seed}",
            pilots=own,
        )
        return {
            **data,
            "kind": "combat",
            "playing": self.playing,
            "you": PLAYER,
            "radar": DIFFICULTIES[self.choice.difficulty].radar and self.playing,
            "tick": self.tick_s,
            "timeLimit": params.time_limit_s,
            "hitRadius": params.hit_radius_m,
            "fighter": params.fighter._asdict(),
        }

    def command(self, message: Mapping[str, Any]) -> None:
        """Take over the player's controls; a trigger that was pulled stays so until the next tick."""
        new = stick_of(message)
        self.stick = new._replace(fire=new.fire or self.stick.fire)

    def step(self) -> dict[str, Any]:
        """Fly one tick and return its frame."""
        before = self.env.combat_state
        with torch.no_grad(), set_exploration_type(ExplorationType.DETERMINISTIC):
            self._latest.set(self.env.action_key, self._action(before))
            stepped = self.env.step(self._latest)
        self.stick = self.stick._replace(fire=False)
        self._latest = step_mdp(stepped)
        after = self.env.combat_state
        self._keep(stepped, after)
        self.over = bool(stepped["next", "done"])
        return self._frame(before, after)

    def graph(self, me: int) -> dict[str, Any] | None:
        """Return the space-time graph of one aircraft, with the margins of its enemy; None if it is dead."""
        state = self.env.combat_state
        if not 0 <= me < len(self.params.teams) or not fights(self.params, state, me):
            return None
        graph = spacetime_graph(self.params, state, 0, me)
        return {
            "me": me,
            "graphs": packed_graph(self.params, state, self._time_s, me, graph),
            "attack": [graph["attack"][f"{name}_m"] for name in ("left", "right", "current")],
        }

    def recorded(self) -> Recording:
        """Return the recording of the fight so far."""
        return recording(self.params, [self._packing.unpack(packed) for packed in self._packed])

    def rollout(self) -> TensorDictBase:
        """Return the steps of the player's side so far, (1, T)."""
        parts = [*self._chunks, *([torch.stack(self._rows, 1)] if self._rows else [])]
        return torch.cat(parts, 1)

    def _keep(self, stepped: TensorDictBase, after: CombatState) -> None:
        """Keep a step and its state, in few objects: a fight has thousands of them."""
        self._packed.append(pack(after))
        self._rows.append(stepped)
        if len(self._rows) == _CHUNK:
            self._chunks.append(torch.stack(self._rows, 1))
            self._rows = []

    @property
    def _time_s(self) -> float:
        return (len(self._packed) - 1) * self.tick_s

    # ---- actions --------------------------------------------------------------------------------

    def _action(self, state: CombatState) -> Tensor:
        """Return the actions of the player's side: the player's, and those of the pilot beside it."""
        rows: Tensor | None = None
        if self._pilot is not None:
            rows, self._memories = self.env.pilot_action(self._pilot, self._memories)
        if not self.playing:
            assert rows is not None  # then a pilot flies
            return rows
        own = self._player_action(state)
        if rows is None:
            return own
        return torch.cat([own.unsqueeze(1), rows[:, 1:]], 1)

    def _player_action(self, state: CombatState) -> Tensor:
        """Return the player's action (1, columns); a trigger that is not ready is no action."""
        rudder, throttle, fire, target, _ = self.stick
        ready = bool(can_fire(self.params, state)[PLAYER])
        wanted = torch.tensor([target], dtype=torch.int32)
        aim = self.env.aimed_at(state, PLAYER, wanted)
        action: Tensor = self.env.action.nearest(
            torch.tensor([rudder]), torch.tensor([throttle]), torch.tensor([fire and ready]), aim
        )
        return action

    # ---- frames ---------------------------------------------------------------------------------

    def _frame(self, before: CombatState, after: CombatState) -> dict[str, Any]:
        """Return what has changed in a tick; numbers as rounded as a screen shows them."""
        events, launched, ended = self._flights(before, after)
        craft = after.aircraft
        fields = [*craft.motion, craft.rudder, craft.throttle, craft.alive, craft.rounds]
        rows = torch.stack([field[:, 0].float() for field in fields], 1).tolist()
        return {
            "t": round(self._time_s, 3),
            "aircraft": [[*_place(row), *_controls(row)] for row in rows],
            "missiles": self._missiles(after),
            "launched": launched,
            "ended": ended,
            "events": [
                {"t": round(e.time_s, 3), "kind": e.kind, "aircraft": e.aircraft, "other": e.other}
                for e in events
            ],
            "ready": bool(can_fire(self.params, after)[PLAYER]),
            "number": self.stick.number,
            "over": self.over,
        }

    def _missiles(self, state: CombatState) -> list[list[float]]:
        """Return number, target and place of everything that flies."""
        rows = []
        for (carrier, channel), number in self._flying.items():
            _, *knot = knot_of(0.0, state.missiles.motion, carrier, channel)
            target = int(state.missiles.target[carrier, channel, 0])
            rows.append([number, target, *_rounded(knot)])
        return rows

    def _flights(
        self, before: CombatState, after: CombatState
    ) -> tuple[list[Event], list[dict[str, Any]], list[dict[str, Any]]]:
        """Return the events of a tick, and the missiles that were launched and that ended in it."""
        events: list[Event] = []
        launched: list[dict[str, Any]] = []
        ended: list[dict[str, Any]] = []
        carriers, channels = after.missiles.active.shape[:2]
        active = after.missiles.active[..., 0].tolist()
        for carrier in range(carriers):
            for channel in range(channels):
                place = (carrier, channel)
                if place not in self._flying and not active[carrier][channel]:
                    continue
                if launched_between(self.params, before, after, *place):
                    if place in self._flying:  # given up for the new one
                        ended.append(self._end(before, place, "miss", events))
                    launched.append(self._launch(before, after, place, events))
                if not active[carrier][channel]:
                    target = int(after.missiles.target[carrier, channel, 0])
                    hit = struck_between(self.params, before, after, place, target)
                    ended.append(self._end(after, place, "hit" if hit else "miss", events))
        killed = before.aircraft.alive[:, 0] & ~after.aircraft.alive[:, 0]
        for index in killed.nonzero().flatten().tolist():
            by = next((e.aircraft for e in events if e.kind == "hit" and e.other == index), index)
            events.append(Event(self._time_s, "kill", index, by))
        return events, launched, ended

    def _launch(
        self, before: CombatState, after: CombatState, place: tuple[int, int], events: list[Event]
    ) -> dict[str, Any]:
        time_s = self._time_s - self.tick_s
        target = int(after.missiles.target[(*place, 0)])
        self._launches += 1
        self._flying[place] = self._launches
        events.append(Event(time_s, "launch", place[0], target))
        _, *knot = launch_knot(self.params, before, place[0], time_s)
        return {
            "number": self._launches,
            "carrier": place[0],
            "target": target,
            "t": round(time_s, 3),
            "knot": _rounded(knot),
        }

    def _end(
        self, state: CombatState, place: tuple[int, int], ending: str, events: list[Event]
    ) -> dict[str, Any]:
        target = int(state.missiles.target[(*place, 0)])
        events.append(Event(self._time_s, ending, place[0], target))
        _, *knot = knot_of(0.0, state.missiles.motion, *place)
        return {"number": self._flying.pop(place), "ending": ending, "knot": _rounded(knot)}


def _place(row: list[float]) -> list[float]:
    x_m, y_m, cos, sin, speed_mps = row[:5]
    return _rounded([x_m, y_m, math.atan2(sin, cos), speed_mps])


def _controls(row: list[float]) -> list[float]:
    rudder, throttle, alive, rounds = row[5:]
    return [round(rudder, 3), round(throttle, 3), int(alive), int(rounds)]


def _rounded(knot: list[float] | tuple[float, ...]) -> list[float]:
    """Return x, y, heading and speed: decimetres, a twentieth of a degree."""
    x_m, y_m, heading_rad, speed_mps = knot
    return [round(x_m, 1), round(y_m, 1), round(heading_rad, 4), round(speed_mps, 1)]
