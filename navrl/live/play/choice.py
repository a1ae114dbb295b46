"""Choices of a player before a fight, and the configuration that follows from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from navrl.config.checks import ConfigError, did_you_mean, require_whole
from navrl.config.compose import build, compose, from_json, group_option, group_options, to_json
from navrl.envs.combat.opponents.base import Pilot
from navrl.envs.combat.opponents.frozen import Frozen
from navrl.envs.combat.opponents.paced import Paced
from navrl.envs.combat.sim.params import CombatParams
from navrl.run.build import install_policy
from navrl.run.policies import scripted_option
from navrl.storage.find import OUTPUTS, ZOO, find, shipped

TICK_S = 0.05  # between two commands of a person, and of the physics: 20 a second
MOST_AIRCRAFT = 2  # a side
_SCRIPTS = ("straight", "pursuit", "random", "phase2", "phase3", "stg_rule", "crank_seed", "crank")
# What a command line may not change, because the game decides it.
_FIXED = ("opponent", "action", "device", "compile", "env.team_size", "env.sim.decision_s")


class Difficulty(NamedTuple):
    """A level of difficulty for a person."""

    decision_s: float  # between two decisions of the other pilots
    radar: bool  # the page shows only what the own sensors see
    says: str


DIFFICULTIES: dict[str, Difficulty] = {
    "easy": Difficulty(3.0, False, "they decide every 3 s, and you see everything"),
    "normal": Difficulty(1.0, False, "they decide every second, as in training"),
    "hard": Difficulty(1.0, True, "and you see what your radar and warning receiver see"),
}


class Choice(NamedTuple):
    """A choice of a player."""

    opponent: str  # a script in conf/opponent, or a policy as navrl evaluate names it
    own: str | None = None  # who flies the own aircraft; None: the player
    team_size: int = 1
    wingman: str = "crank"  # who flies the rest of the player's side
    difficulty: str = "normal"


def menu(named: Sequence[str]) -> list[str]:
    """Return the pilots that a page may choose: scripts, shipped policies of combat, and those `named`."""
    scripts = [name for name in _SCRIPTS if name in group_options("opponent")]
    policies = [f"{ZOO}{name}" for name in shipped() if name.startswith("combat")]
    return list(dict.fromkeys([*scripts, *policies, *named]))


def checked(choice: Choice, pilots: Sequence[str]) -> Choice:
    """Return the choice, or raise one sentence about what is impossible in it."""
    require_whole("team_size", choice.team_size, 1, MOST_AIRCRAFT)
    if choice.difficulty not in DIFFICULTIES:
        raise ConfigError(
            f"difficulty = {choice.difficulty!r:.40}; expected one of {', '.join(DIFFICULTIES)}"
            f"{did_you_mean(str(choice.difficulty), [*DIFFICULTIES]) or '; change difficulty'}"
        )
    wanted = [choice.opponent, choice.wingman, *([choice.own] if choice.own is not None else [])]
    for name in wanted:
        if name not in pilots:
            raise ConfigError(f"{name!r:.60} is none of the pilots: {', '.join(pilots)}")
    return choice


def check_pilot(name: str) -> str:
    """Return the name of a pilot with its file, or raise one sentence about it."""
    if name in group_options("opponent"):
        scripted_option("opponent", name)
        return name
    if name.startswith(ZOO):
        find(name, OUTPUTS)
        return name
    try:
        return str(find(name, OUTPUTS))
    except FileNotFoundError as error:
        known = menu(())
        raise ConfigError(
            f"{error}{did_you_mean(name, known)}; or name a pilot: {', '.join(known)}"
        ) from error


def configuration(choice: Choice, overrides: Sequence[str]) -> Any:
    """Return the configuration of the fight: that of navrl train, with quick decisions of the player."""
    for word in overrides:
        key = word.lstrip("+~").partition("=")[0]
        if key in _FIXED:
            raise ConfigError(f"{word}: navrl play decides {key} itself; leave it out")
    config = compose(
        "train",
        [
            "opponent=straight",
            "action=continuous",
            "device=cpu",
            "compile=off",
            f"env.team_size={choice.team_size}",
            f"env.sim.decision_s={TICK_S}",
            f"env.sim.tick_s={TICK_S}",
            *overrides,
        ],
    )
    if "sim" not in config.env or "scenario" not in config:
        raise ConfigError(f"env={config.env.name} has no pilots; expected env=combat; change env")
    plain = to_json(config)
    plain["env"]["sim"]["cooldown_decisions"] *= round(1.0 / TICK_S)  # of a second in training
    plain["opponent"] = {
        "_target_": "navrl.envs.combat.opponents.Paced",
        "pilot": to_json(_option(choice.opponent)),
        "decision_s": DIFFICULTIES[choice.difficulty].decision_s,
    }
    return from_json(plain)


def own_pilot(choice: Choice, params: CombatParams) -> Pilot | None:
    """Return who flies on the player's side beside the player, or in its place; None: nobody."""
    name = choice.own if choice.own is not None else choice.wingman
    if choice.own is None and choice.team_size == 1:
        return None
    pilot: Pilot = build(_option(name))
    if isinstance(pilot, Frozen):
        option = "wingman" if choice.own is None else "own pilot"
        install_policy(pilot, params, torch.device("cpu"), compile_mode="off", option=option)
    return Paced(pilot=pilot, decision_s=DIFFICULTIES[choice.difficulty].decision_s)


def pilot_label(name: str) -> str:
    """Return the name of a pilot as people read it: a checkpoint by its run and file."""
    parts = name.removeprefix(ZOO).split("/")
    return "/".join(part for part in parts[-3:] if part != "checkpoints").removesuffix(".ckpt")


def _option(name: str) -> Any:
    """Return the YAML of a script, or of a checkpoint with its name."""
    if name in group_options("opponent"):
        return scripted_option("opponent", name)
    option = group_option("opponent", "checkpoint")
    option.checkpoint = name
    return option
