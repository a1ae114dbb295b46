"""Self-play against former selves: snapshots, who is played next, payoff matrix and ratings."""

import copy
import math
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor

from navrl.opponents.league import Block, League
from navrl.ratings import Elo, Game, Payoff, pfsp_weights

LEARNER = "learner"
_TAG = 1000  # of the first snapshot; smaller numbers are scripts


class SelfPlay:
    """Half of the envs play the newest snapshot, some play the hardest ones, the rest play scripts."""

    def __init__(
        self,
        *,
        snapshot_every: int,
        pool_size: int,
        latest_share: float,
        pool_share: float,
        pool_seats: int,
        redraw_every: int,
        pfsp_power: float,
        elo_k: float,
    ) -> None:
        shares = latest_share, pool_share, 1.0 - latest_share - pool_share
        if min(shares) < 0.0 or min(snapshot_every, pool_size, pool_seats, redraw_every) < 1:
            raise ValueError(
                f"curriculum.self_play.latest_share = {latest_share} and pool_share = {pool_share}; "
                "expected shares of 0 or more with a sum of at most 1, and whole numbers of 1 or more "
                "for the others; change curriculum.self_play"
            )
        self.snapshot_every, self.pool_size, self.pool_seats = snapshot_every, pool_size, pool_seats
        self.latest_share, self.pool_share = latest_share, pool_share
        self.redraw_every, self.pfsp_power = redraw_every, pfsp_power
        self.payoff, self.elo = Payoff([LEARNER]), Elo(k=elo_k, start=1000.0)
        self.elo.add(LEARNER)
        self.snapshots: dict[str, dict[str, Tensor]] = {}
        self.made, self.rounds, self.next_frames = 0, 0, 0
        self.seated: list[str] = []
        self.on = False

    def attach(self, env: Any, agent: Any) -> None:
        """The env whose opponent is the league, and the agent whose policy is copied."""
        if not isinstance(env.opponent, League):
            raise ValueError(
                f"a curriculum needs opponent=league; got {type(env.opponent).__name__}; change opponent"
            )
        self._env, self._agent, self._pilot = env, agent, env.opponent
        self._pilot.furnish(env.batch_size.numel(), env.device)
        self._policies = [self._copy() for _ in range(1 + self.pool_seats)]
        self.scripts = list(self._pilot.scripts.pilots)
        for name in self.scripts:
            self.payoff.add(name)
            self.elo.add(name)

    def play(self, *, on: bool) -> None:
        """Fill the seats, or leave all envs to the scripts."""
        self.on = on
        if not on:
            self._pilot.seat([])
        elif self.snapshots:
            self._seat()

    def pause(self) -> None:
        """Leave all envs to the scripts until `proceed`."""
        self._pilot.seat([])

    def proceed(self) -> None:
        """Back to the seats that `pause` emptied."""
        if self.on and self.seated:
            self._deal(self.seated)

    def after(self, frames: int, rollout: TensorDictBase) -> dict[str, float]:
        """Count the games of a rollout; take a snapshot and deal the seats anew when it is time."""
        self._count(rollout)
        self.rounds += 1
        if frames >= self.next_frames:
            self._take(frames)
            self._seat()
        elif self.rounds % self.redraw_every == 0:
            self._seat()
        return self._metrics()

    def _count(self, rollout: TensorDictBase) -> None:
        keys = self._env.episode_keys
        columns = [keys.index(name) for name in ("_opponent", "win", "draw", "loss")]
        done = rollout.get(("next", "done")).squeeze(-1)
        ends = rollout.get(("next", "episode"))[..., columns][done].tolist()
        tally: dict[str, list[int]] = {}
        for tag, *outcome in ends:
            name = self._name(int(tag))
            if name is not None:
                row = tally.setdefault(name, [0, 0, 0])
                for place, happened in enumerate(outcome):
                    row[place] += int(happened)
        games = []
        for name, (wins, draws, losses) in sorted(tally.items()):
            self.payoff.record(LEARNER, name, wins, draws, losses)
            score = (wins + 0.5 * draws) / (wins + draws + losses)
            games.append(Game(LEARNER, name, score))
        self.elo.update(games)

    def _name(self, tag: int) -> str | None:
        if tag >= _TAG:
            name = f"snapshot{tag - _TAG:03d}"
            return name if name in self.snapshots else None
        return self.scripts[tag] if 0 <= tag < len(self.scripts) else None

    def _take(self, frames: int) -> None:
        """Keep a copy of the policy; the oldest one gives way."""
        name = f"snapshot{self.made:03d}"
        weights = self._agent.policy.state_dict()
        self.snapshots[name] = {key: value.detach().clone() for key, value in weights.items()}
        self.payoff.add(name)
        self.elo.add(name, parent=LEARNER)
        self._hand_over(name)
        self.made += 1
        self.next_frames = frames + self.snapshot_every
        if len(self.snapshots) > self.pool_size:
            oldest = next(iter(self.snapshots))
            del self.snapshots[oldest]
            self.payoff.remove(oldest)
            self.elo.remove(oldest)

    def _hand_over(self, name: str) -> None:
        """What the learner played since the last snapshot are this one's results; it begins anew."""
        for other in self.payoff.players:
            found = self.payoff.results(LEARNER, other) if other not in (LEARNER, name) else None
            if found is not None and found.games:
                self.payoff.record(name, other, found.wins, found.draws, found.losses)
        self.payoff.remove(LEARNER)
        self.payoff.add(LEARNER)

    def _seat(self) -> None:
        """The newest snapshot and some of the hardest, each in a block of envs."""
        names = list(self.snapshots)
        rates = [self.payoff.win_rate(LEARNER, name) for name in names]
        weights = torch.tensor(pfsp_weights(rates, self.pfsp_power))
        drawn = torch.multinomial(weights, self.pool_seats, replacement=True).tolist()
        self._deal([names[-1], *(names[index] for index in drawn)])

    def _deal(self, names: list[str]) -> None:
        self.seated = names
        num_envs = self._env.batch_size.numel()
        edges = [0, math.floor(num_envs * self.latest_share)]
        for seat in range(self.pool_seats):
            share = self.latest_share + self.pool_share * (seat + 1) / self.pool_seats
            edges.append(math.floor(num_envs * share))
        blocks = []
        for seat, name in enumerate(names):
            self._policies[seat].load_state_dict(self.snapshots[name])
            tag = _TAG + int(name.removeprefix("snapshot"))
            if edges[seat] < edges[seat + 1]:
                blocks.append(Block(edges[seat], edges[seat + 1], self._policies[seat], tag))
        self._pilot.seat(blocks)

    def _copy(self) -> Any:
        return copy.deepcopy(self._agent.policy).requires_grad_(False)

    def _metrics(self) -> dict[str, float]:
        ratings = self.elo.ratings
        scripted = [self.payoff.win_rate(LEARNER, name) for name in self.scripts]
        pool = [self.payoff.win_rate(LEARNER, name) for name in self.snapshots]
        return {
            "league/elo": ratings[LEARNER],
            "league/snapshots": float(len(self.snapshots)),
            "league/win_pool": sum(pool) / max(len(pool), 1),
            "league/win_scripts": sum(scripted) / max(len(scripted), 1),
        }

    def state_dict(self) -> dict[str, Any]:
        """Snapshots, results, ratings and who sits where."""
        return {
            "snapshots": self.snapshots,
            "payoff": self.payoff.state_dict(),
            "elo": self.elo.state_dict(),
            "made": self.made,
            "rounds": self.rounds,
            "next_frames": self.next_frames,
            "seated": self.seated,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of state_dict."""
        self.snapshots = state["snapshots"]
        self.payoff.load_state_dict(state["payoff"])
        self.elo.load_state_dict(state["elo"])
        self.made, self.rounds = state["made"], state["rounds"]
        self.next_frames = state["next_frames"]
        if self.on and state["seated"]:
            self._deal(state["seated"])
