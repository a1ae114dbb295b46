"""Self-play against former selves: snapshots, matchmaking, payoff matrix and ratings."""

import contextlib
import copy
import math
from collections.abc import Sequence
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor

from navrl.config.checks import ConfigError, require, require_number, require_whole
from navrl.envs.combat.opponents.frozen import check_playable
from navrl.envs.combat.opponents.league import Block, League
from navrl.ranks.noise import rows_for
from navrl.selfplay.payoff import Payoff, Record, check_results
from navrl.selfplay.ratings import Elo, Result
from navrl.storage.schema import ANYTHING, Each, Having, Named, check, exactly, numbers, whole

LEARNER = "learner"
_TAG = 1000  # of the first snapshot; smaller numbers are scripts
_ROUNDING = 1e-9  # that may be added to shares which should sum to 1
_OPTION = "curriculum.self_play"
_PLACE = "curriculum/league"  # in a checkpoint
_NAME, _SNAPSHOT = "snapshot", r"snapshot\d{3,9}"
_MOST_MADE = 10**9  # so that tags fit their tensor


class SelfPlay:
    """Opponents for the envs: a share plays the newest snapshot, a share drawn ones, the rest scripts."""

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
        require(0.0 <= latest_share <= 1.0, f"{_OPTION}.latest_share", latest_share, "0 to 1")
        fits = 0.0 <= pool_share <= 1.0 - latest_share + _ROUNDING
        rest = f"0 to {1.0 - latest_share:g}, what latest_share leaves"
        require(fits, f"{_OPTION}.pool_share", pool_share, rest)
        require_number(f"{_OPTION}.pfsp_power", pfsp_power, least=0.0)
        require_number(f"{_OPTION}.elo_k", elo_k, above=0.0)
        counts = {"snapshot_every": snapshot_every, "pool_size": pool_size}
        counts |= {"pool_seats": pool_seats, "redraw_every": redraw_every}
        for name, count in counts.items():
            require_whole(f"{_OPTION}.{name}", count, 1)
        self.snapshot_every, self.pool_size, self.pool_seats = snapshot_every, pool_size, pool_seats
        self.latest_share, self.pool_share = latest_share, pool_share
        self.redraw_every, self.pfsp_power = redraw_every, pfsp_power
        self.payoff, self.elo = Payoff([LEARNER]), Elo(k=elo_k)
        self.elo.add(LEARNER)
        self.snapshots: dict[str, dict[str, Tensor]] = {}
        self.made, self.rollouts, self.next_frames = 0, 0, 0
        self.seated: list[str] = []
        self.on = False

    def attach(self, env: Any, agent: Any) -> None:
        """Use the league in this env as opponent, and copy the policy of this agent."""
        if not isinstance(env.opponent, League):
            raise ConfigError(
                f"a curriculum needs opponent=league; got {type(env.opponent).__name__}; change opponent"
            )
        check_playable(agent.policy)
        self._env, self._agent, self._pilot = env, agent, env.opponent
        self._pilot.allocate(env.batch_size.numel(), env.device)
        self._policies = [self._copy() for _ in range(1 + self.pool_seats)]
        self.scripts = list(self._pilot.scripts.pilots)
        for name in self.scripts:
            self.payoff.add(name)
            self.elo.add(name)

    def play(self, *, on: bool) -> None:
        """Assign snapshots to envs, or leave all envs to the scripts."""
        self.on = on
        if not on:
            self._deal([])
        elif self.snapshots:
            self._seat()

    def paused(self) -> contextlib.AbstractContextManager[None]:
        """Leave all envs to the scripts inside the context, for other episodes."""
        return self._pilot.scripts_only()

    def after(self, frames: int, rollout: TensorDictBase) -> dict[str, float]:
        """Count the games of a rollout; take a snapshot and draw opponents anew when due; return metrics."""
        self._count(rollout)
        self.rollouts += 1
        if frames >= self.next_frames:
            self._take(frames)
            self._seat()
        elif self.rollouts % self.redraw_every == 0:
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
            name = f"{_NAME}{tag - _TAG:03d}"
            return name if name in self.snapshots else None
        return self.scripts[tag] if 0 <= tag < len(self.scripts) else None

    def _take(self, frames: int) -> None:
        """Add a copy of the policy to the pool, in place of the oldest one if it is full."""
        name = f"{_NAME}{self.made:03d}"
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
        """Move the learner's results since the last snapshot to this one; the learner begins anew."""
        for other in self.payoff.players:
            found = self.payoff.results(LEARNER, other) if other not in (LEARNER, name) else None
            if found is not None and found.games:
                self.payoff.record(name, other, found.wins, found.draws, found.losses)
        self.payoff.remove(LEARNER)
        self.payoff.add(LEARNER)

    def _seat(self) -> None:
        """Assign the newest snapshot and some of the hardest to a block of envs each."""
        names = list(self.snapshots)
        rates = [self._score(name) for name in names]
        weights = torch.tensor(pfsp_weights(rates, self.pfsp_power))
        drawn = torch.multinomial(weights, self.pool_seats, replacement=True).tolist()
        self._deal([names[-1], *(names[index] for index in drawn)])

    def _deal(self, names: list[str]) -> None:
        self.seated = names
        num_envs = rows_for(self._env.batch_size.numel()).total
        edges = [0, math.floor(num_envs * self.latest_share)]
        for seat in range(self.pool_seats):
            share = self.latest_share + self.pool_share * (seat + 1) / self.pool_seats
            edges.append(math.floor(num_envs * share))
        blocks = []
        for seat, name in enumerate(names):
            self._policies[seat].load_state_dict(self.snapshots[name])
            tag = _TAG + _number(name)
            if edges[seat] < edges[seat + 1]:
                blocks.append(Block(edges[seat], edges[seat + 1], self._policies[seat], tag))
        self._pilot.assign(blocks)

    def _record(self, name: str) -> Record:
        """Return the learner's results against a player, with those that it moved to the newest snapshot."""
        records = [self.payoff.results(LEARNER, name)]
        newest = next(reversed(self.snapshots), name)
        if newest != name:
            records.append(self.payoff.results(newest, name))
        return Record(*(sum(counts) for counts in zip(*records, strict=True)))

    def _score(self, name: str) -> float:
        """Return the score per game after two imagined draws, as in Payoff.score."""
        record = self._record(name)
        return (record.score + 1.0) / (record.games + 2.0)

    def _copy(self) -> Any:
        return copy.deepcopy(self._agent.policy).requires_grad_(False)

    def _metrics(self) -> dict[str, float]:
        """Return the rating, and mean scores against the opponents with games."""
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
        """Return snapshots, results, ratings and the assigned envs."""
        return {
            "snapshots": dict(self.snapshots),
            "payoff": self.payoff.state_dict(),
            "elo": self.elo.state_dict(),
            "made": self.made,
            "rollouts": self.rollouts,
            "next_frames": self.next_frames,
            "seated": self.seated,
            "pilot": self._pilot.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what state_dict returned."""
        self._check(state)
        unknown = set(self.scripts) - set(state["payoff"]["players"])
        if unknown:
            raise ConfigError(
                f"the league of the checkpoint has never met {', '.join(sorted(unknown))}; expected the "
                "scripts it was saved with; leave opponent.scripts as it was"
            )
        self.snapshots = dict(state["snapshots"])
        self.payoff.load_state_dict(state["payoff"])
        self.elo.load_state_dict(state["elo"])
        self.made, self.rollouts = state["made"], state["rollouts"]
        self.next_frames = state["next_frames"]
        self._deal(state["seated"][: len(self._policies)])
        self._pilot.load_state_dict(state["pilot"])

    def _check(self, state: Any) -> None:
        """Raise CheckpointMismatch unless the state is of a league of policies like the learner's."""
        weights = dict(self._agent.policy.state_dict())
        expected = {
            "snapshots": Named(weights, _SNAPSHOT),
            "payoff": ANYTHING,  # which checks itself
            "elo": Named(0.0),
            "made": whole(most=_MOST_MADE),
            "rollouts": whole(),
            "next_frames": whole(),
            "seated": Each(""),
            "pilot": {"changes": numbers(torch.int32, [None])},
        }
        check(state, expected, _PLACE)
        check_results(state["payoff"], f"{_PLACE}/payoff")
        names = list(state["snapshots"])
        most = max((_number(name) for name in names), default=-1)
        rated = dict.fromkeys((LEARNER, *state["payoff"]["players"]), 0.0)
        check(state["made"], whole(most + 1), f"{_PLACE}/made")
        check(state["seated"], Each(exactly(*names)), f"{_PLACE}/seated")
        check(state["elo"], Having(rated), f"{_PLACE}/elo")
        absent = [name for name in (LEARNER, *names) if name not in state["payoff"]["players"]]
        check(absent, [], f"{_PLACE}/payoff/players, of which {absent[:1]} is absent, the rest")


def _number(name: str) -> int:
    return int(name.removeprefix(_NAME))


def pfsp_weights(scores: Sequence[float], power: float = 2.0) -> list[float]:
    """Return the chance of each opponent, (1 - score) ** power: prioritised fictitious self-play.

    `scores` are the learner's. The weights sum to 1. Power 0 draws all opponents alike, a higher
    power prefers those that still win; opponents that always lose are drawn alike.
    """
    usable = all(0.0 <= rate <= 1.0 for rate in scores) and 0.0 <= power < float("inf")
    if not usable or not scores:
        raise ValueError(
            f"scores = {list(scores)}, power = {power}; "
            "expected at least one score, all in [0, 1], and a power of 0 or more"
        )
    hardest = max(1.0 - rate for rate in scores)
    if hardest == 0.0:
        return [1.0 / len(scores)] * len(scores)
    # Relative to the hardest opponent, so that the largest weight is 1 and a high power cannot underflow.
    weights = [((1.0 - rate) / hardest) ** power for rate in scores]
    total = sum(weights)
    return [weight / total for weight in weights]
