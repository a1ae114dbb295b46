"""Games of `navrl play`, flown to their ends in this process, and the simulator that flies them again."""

import json

import torch
from torchrl.envs.utils import ExplorationType, set_exploration_type, step_mdp

from navrl.config.compose import from_json
from navrl.live.play.choice import Choice
from navrl.live.play.games import CombatGames
from navrl.run.build import build_env
from navrl.storage.rollouts import load_rollout, rollout_files


def read_back(folder):
    """The configuration, the seed and the rollout of a recorded game."""
    facts, config = (
        json.loads((folder / f"{name}.json").read_text()) for name in ("fight", "config")
    )
    (file,) = rollout_files(folder / "rollouts")
    return config, facts["seed"], load_rollout(file)


def flown_again(config, seed, actions):
    """The rollout (1, T) of these actions (1, T, ...) in the env of a recorded game."""
    env = build_env(from_json(config), num_envs=1, seed=seed, compile_mode="off")
    rows, latest = [], env.reset()
    for action in actions.unbind(1):
        latest.set(env.action_key, action)
        with torch.no_grad(), set_exploration_type(ExplorationType.DETERMINISTIC):
            stepped = env.step(latest)
        rows.append(stepped)
        latest = step_mdp(stepped)
    return torch.stack(rows, 1)


def fights(*overrides, seed=3, opponent="crank"):
    """The games of a server."""
    first = Choice(opponent)
    return CombatGames(first, pilot="ace", overrides=overrides, named=[], seed=seed)


def fly(game, stick, most=10_000):
    """Fly a game by stick(tick) until it is over or has had that many ticks, and return its result."""
    for tick in range(most):
        game.command({**stick(tick), "number": tick})
        game.step()
        if game.over:
            break
    return game.close()
