"""A league without aircraft: games are results that a test makes up."""

import math
from types import SimpleNamespace

import torch
from tensordict import TensorDict
from torch import nn

from navrl.agents.networks.memory import NoRecurrence
from navrl.envs.combat.opponents.base import Pilot
from navrl.envs.combat.opponents.league import League
from navrl.envs.combat.opponents.mixture import Mixture
from navrl.envs.combat.sim.state import Command
from navrl.selfplay.league import SelfPlay

OPTIONS = {
    "snapshot_every": 100,
    "pool_size": 3,
    "latest_share": 0.5,
    "pool_share": 0.25,
    "pool_seats": 2,
    "redraw_every": 1000,
    "pfsp_power": 2.0,
    "elo_k": 16.0,
}
N = 16


class Idle(Pilot):
    """A script that is never flown."""

    def initial(self, key):
        return ()

    def act(self, params, state, me, memory):
        return Command(None, None, None), ()


class Strength(nn.Module):
    """Stands for a policy: one number."""

    trunk, head = SimpleNamespace(memory=NoRecurrence()), None  # it never acts

    def __init__(self):
        super().__init__()
        self.points = nn.Parameter(torch.tensor(1000.0))


class FakeEnv:
    """Stands for env and agent: games are results, without aircraft."""

    episode_keys = ("return", "draw", "loss", "_opponent", "win")
    device = torch.device("cpu")

    def __init__(self, num_envs=N, scripts=("a", "b")):
        self.batch_size = torch.Size([num_envs])
        mixture = Mixture(
            pilots={name: Idle() for name in scripts}, weights=dict.fromkeys(scripts, 1.0)
        )
        self.opponent = League(scripts=mixture, observation=None, action=None, compile_mode="off")
        self.policy = Strength()

    def rollout(self, games):
        """One frame an env: (tag, score) where an episode ended, None where not."""
        rows = torch.full((len(games), 1, len(self.episode_keys)), math.nan)
        done = torch.zeros(len(games), 1, 1, dtype=torch.bool)
        for row, flag, game in zip(rows, done, games, strict=True):
            if game is not None:
                tag, score = game
                flag[...] = True
                outcome = {
                    "_opponent": tag,
                    "win": score == 1,
                    "draw": score == 0.5,
                    "loss": score == 0,
                }
                for name, value in outcome.items():
                    row[0, self.episode_keys.index(name)] = float(value)
        ahead = TensorDict({"done": done, "episode": rows}, batch_size=[len(games), 1])
        return TensorDict({"next": ahead}, batch_size=[len(games), 1])


def league(env=None, *, on=True, **changes):
    """A league whose lesson has begun, and its env."""
    env = env or FakeEnv()
    found = SelfPlay(**(OPTIONS | changes))
    found.attach(env, env)
    found.play(on=on)
    return found, env


def games_of(payoff):
    """Every pair that has played, as its first player sees it."""
    return {(row, column): tuple(counts) for row, column, *counts in payoff.state_dict()["games"]}


def tag(number):
    return 1000 + number
