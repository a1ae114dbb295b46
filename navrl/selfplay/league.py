"""Self-play against former selves: snapshots, who is played next, payoff matrix and ratings."""

import contextlib
import copy
import math
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor

from navrl.envs.combat.opponents.frozen import check_seats_one
from navrl.envs.combat.opponents.league import Block, League
from navrl.selfplay.elo import Elo, Result
from navrl.selfplay.matchmaking import pfsp_weights
from navrl.selfplay.payoff import Payoff, Record

LEARNER = "learner"
_TAG = 1000  # of the first snapshot; smaller numbers are scripts
_SLIP = 1e-9  # what rounding may add to shares that should sum to 1


class SelfPlay:
    """Of the envs `latest_share` play the newest snapshot, `pool_share` drawn ones, the rest scripts."""

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
        _require("latest_share", latest_share, 0.0 <= latest_share <= 1.0, "0 to 1")
        rest = f"0 to {1.0 - latest_share:g}, what latest_share leaves"
        _require("pool_share", pool_share, 0.0 <= pool_share <= 1.0 - latest_share + _SLIP, rest)
        _require("pfsp_power", pfsp_power, 0.0 <= pfsp_power < math.inf, "0 or more")
        _require("elo_k", elo_k, 0.0 < elo_k < math.inf, "more than 0")
        counts = {"snapshot_every": snapshot_every, "pool_size": pool_size}
        counts |= {"pool_seats": pool_seats, "redraw_every": redraw_every}
        for name, count in counts.items():
            _require(name, count, count >= 1, "1 or more")
        self.snapshot_every, self.pool_size, self.pool_seats = snapshot_every, pool_size, pool_seats
        self.latest_share, self.pool_share = latest_share, pool_share
        self.redraw_every, self.pfsp_power = redraw_every, pfsp_power
        self.payoff, self.elo = Payoff([LEARNER]), Elo(k=elo_k)
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
        check_seats_one(agent.policy)
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
            self._deal([])
        elif self.snapshots:
            self._seat()

    def paused(self) -> contextlib.AbstractContextManager[None]:
        """All envs to the scripts meanwhile, for other episodes; then the same seats again."""
        return self._pilot.vacated()

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
        results = []
        for name, (wins, draws, losses) in sorted(tally.items()):
            self.payoff.record(LEARNER, name, wins, draws, losses)
            score = (wins + 0.5 * draws) / (wins + draws + losses)
            results.append(Result(LEARNER, name, score))
        self.elo.update(results)

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
        while len(self.snapshots) > self.pool_size:
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
        rates = [self._score(name) for name in names]
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

    def _record(self, name: str) -> Record:
        """What the learner has achieved against it, with what the newest snapshot has as its heir."""
        records = [self.payoff.results(LEARNER, name)]
        newest = next(reversed(self.snapshots), name)
        if newest != name:
            records.append(self.payoff.results(newest, name))
        return Record(*(sum(counts) for counts in zip(*records, strict=True)))

    def _score(self, name: str) -> float:
        """Score per game after two imagined draws, as in Payoff.score."""
        record = self._record(name)
        return (record.score + 1.0) / (record.games + 2.0)

    def _copy(self) -> Any:
        return copy.deepcopy(self._agent.policy).requires_grad_(False)

    def _metrics(self) -> dict[str, float]:
        """The rating, and mean scores against those who were played at all."""
        found = {
            "league/elo": self.elo.ratings[LEARNER],
            "league/snapshots": float(len(self.snapshots)),
        }
        for group, names in (("pool", list(self.snapshots)), ("scripts", self.scripts)):
            played = [self._score(name) for name in names if self._record(name).games]
            if played:
                found[f"league/score_{group}"] = sum(played) / len(played)
        return found

    def state_dict(self) -> dict[str, Any]:
        """Snapshots, results, ratings and who sits where."""
        return {
            "snapshots": dict(self.snapshots),
            "payoff": self.payoff.state_dict(),
            "elo": self.elo.state_dict(),
            "made": self.made,
            "rounds": self.rounds,
            "next_frames": self.next_frames,
            "seated": self.seated,
            "pilot": self._pilot.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of state_dict."""
        strangers = set(self.scripts) - set(state["payoff"]["players"])
        if strangers:
            raise ValueError(
                f"the league of the checkpoint has never met {', '.join(sorted(strangers))}; expected the "
                "scripts it was saved with; leave opponent.scripts as it was"
            )
        self.snapshots = dict(state["snapshots"])
        self.payoff.load_state_dict(state["payoff"])
        self.elo.load_state_dict(state["elo"])
        self.made, self.rounds = state["made"], state["rounds"]
        self.next_frames = state["next_frames"]
        self._deal(state["seated"][: len(self._policies)])
        self._pilot.load_state_dict(state["pilot"])


def _require(name: str, value: float, usable: bool, expected: str) -> None:
    if not usable:
        raise ValueError(
            f"curriculum.self_play.{name} = {value}; expected {expected}; "
            f"change curriculum.self_play.{name}"
        )
