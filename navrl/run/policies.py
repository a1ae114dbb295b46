"""Policies by name, as commands take them: latest, best, a run, a checkpoint, zoo:<name>, scripted:<name>."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, cast

import torch
from omegaconf import DictConfig, OmegaConf, open_dict

from navrl.agents.scripted import RandomPolicy, ScriptedPolicy
from navrl.config.checks import ConfigError, did_you_mean, require_flag, require_whole
from navrl.config.compose import (
    build,
    compose_all,
    from_json,
    group_option,
    group_options,
    overridden,
)
from navrl.config.quoting import override
from navrl.contracts import Env, Policy, ScriptedEnv
from navrl.run.build import build_env, load_policy
from navrl.run.device import MOST_ENVS, enough_memory
from navrl.run.episodes import play, summarise
from navrl.run.evaluation import evaluation_config
from navrl.run.intervals import Interval
from navrl.run.stored_files import files_read, files_typed, repeated, require_typed
from navrl.run.transfer import OPPONENT, resolve_opponent
from navrl.storage.checkpoint import load_policy_state
from navrl.storage.find import OUTPUTS, find, is_shipped
from navrl.storage.info import BEST, LATEST

SCRIPTED = "scripted:"
_NO_PILOTS = ("checkpoint", "league", "mixture", "scripts")  # several pilots, or a network
PRECISION = "agent.network.precision"  # may differ from that of the training: the weights stay fp32
_INTERFACE = ("observation", "action", "env.observation", "env.sim.decision_s", "env.sim.frame")


class PolicySetup(NamedTuple):
    """A policy and the configuration in which it plays."""

    config: DictConfig
    state: dict[str, Any] | None  # the checkpoint; None of a scripted policy
    label: str
    choices: Mapping[str, Any]  # the option of every group


def find_policy(
    name: str, *, device: str, overrides: Sequence[str] = (), evaluates: bool = True
) -> PolicySetup:
    """Return a policy with the configuration in which it plays.

    One that `evaluates` plays in scenarios and worlds of evaluations, else it plays in those of trainings.
    A scripted policy plays in the default env, a trained one in the env of its run. Overrides are those of
    navrl train; env=<name> chooses another env, in which a trained policy keeps its observations and actions.
    Of the agent of a trained policy only the precision can be chosen.
    """
    overrides = [part for word in overrides for part in spelled_out(word)]
    envs = [word.partition("=")[2] for word in overrides if word.startswith("env=")]
    state: dict[str, Any] | None = None
    if name.startswith(SCRIPTED):
        label, (config, choices) = name, _composed(overrides)
    else:
        path = _find(name)
        state, label = load_policy_state(path), name if is_shipped(name) else str(path)
        own, typed = from_json(state["config"]), files_typed(overrides)
        _require_trained(own, overrides)
        if envs:
            config, choices = _composed(overrides)
            typed += files_read(config)
            if config.env._target_ != own.env._target_:
                raise ConfigError(
                    f"'{name}' was trained in env={own.env.name} and knows nothing of env={envs[-1]}; "
                    "expected an env of the same kind; change env, or leave it out"
                )
        else:
            config, chosen = overridden(own, overrides)
            choices = {**state["choices"], **chosen}
        config = _with_interface_of(own, config, overrides)
        require_typed(config, typed, repeated(config, choices).evaluate)
    if evaluates:
        named = {_key(word).partition(".")[0] for word in overrides}
        if "scenario" in named and "eval_scenario" not in named:
            config.eval_scenario = None  # how the run's own evaluations begin
        config = evaluation_config(config, {})
    with open_dict(config):
        config.device = device
    resolve_opponent(config)
    return PolicySetup(config, state, label, choices)


def build_policy(name: str, config: DictConfig, state: dict[str, Any] | None, env: Env) -> Policy:
    """Build the policy that find_policy found for `env`."""
    if state is not None:
        return load_policy(config, state, env, name)
    script = name[len(SCRIPTED) :]
    if script == "random":
        return RandomPolicy(env=env)
    if env.scripted_group is None:
        raise ConfigError(
            f"env '{env.name}' has no scripted policies but '{SCRIPTED}random', and got '{name}'; "
            "choose that one or a checkpoint"
        )
    pilot = build(scripted_option(env.scripted_group, script))
    return ScriptedPolicy(env=cast(ScriptedEnv, env), pilot=pilot)


class Measured(NamedTuple):
    """The statistics of the episodes of a policy."""

    metrics: dict[str, Interval]
    setup: PolicySetup
    opponent: str | None


def measure_policy(
    name: str,
    *,
    overrides: Sequence[str],
    num_episodes: int,
    seed: int,
    deterministic: bool,
    device: str,
    compile_mode: str | bool,
) -> Measured:
    """Play exactly that many episodes of a policy, each in an env of its own."""
    require_whole("num_episodes", num_episodes, 1, MOST_ENVS)
    require_whole("seed", seed, 0)
    require_flag("deterministic", deterministic)
    setup = find_policy(name, device=device, overrides=overrides)
    with enough_memory("num_episodes", num_episodes):
        env = build_env(setup.config, num_envs=num_episodes, seed=seed, compile_mode=compile_mode)
        with contextlib.closing(env):
            policy = build_policy(name, setup.config, setup.state, env)
            torch.manual_seed(seed)
            ends = play(env, policy, deterministic=deterministic)
    metrics = summarise(ends, env.rate_names, env.counted_when, env.share_names)
    return Measured(metrics, setup, opponent_name(setup.config, setup.choices))


def scripted_option(group: str, name: str) -> Any:
    """Return the YAML of one scripted pilot or planner, not of a mixture, a league or a checkpoint."""
    known = [option for option in group_options(group) if option not in _NO_PILOTS]
    if name in known:
        return group_option(group, name)
    other = {"opponent": "planner", "planner": "opponent"}[group]
    worlds = {"opponent": "combat", "planner": "navigation"}
    if name in group_options(other) and name not in _NO_PILOTS:
        hint = f"; '{name}' is at home in env={worlds[other]}"
    else:
        others = [option for option in group_options(other) if option not in _NO_PILOTS]
        hint = did_you_mean(name, [*known, *others])
    raise ConfigError(f"Unknown scripted policy '{name}'; available: {', '.join(known)}{hint}")


def opponent_name(
    config: DictConfig, choices: Mapping[str, Any] = MappingProxyType({})
) -> str | None:
    """Return the name of the opponent, None in a world without one.

    A checkpoint is named by its file, a pilot by the option that was chosen, or else by its class.
    """
    if not OmegaConf.is_dict(config.get("opponent")):
        return None
    if "checkpoint" in config.opponent:
        return str(config.opponent.checkpoint)
    if "scripts" in config.opponent:  # a league, which has members in training only
        return "scripts"
    if choices.get("opponent") is not None:
        return str(choices["opponent"])
    return str(config.opponent._target_).rpartition(".")[2].lower()


def _find(name: str) -> Any:
    """Return the checkpoint of that name; a misspelt latest or best gets a hint."""
    try:
        return find(name, OUTPUTS)
    except FileNotFoundError as error:
        hint = did_you_mean(name, (LATEST, BEST))
        if not hint or name in (LATEST, BEST):  # right, but there is no such run
            raise
        raise ConfigError(f"{str(error).rpartition('; ')[0]}{hint}") from error


def _key(word: str) -> str:
    return word.lstrip("+~").partition("=")[0]


def _require_trained(trained: DictConfig, overrides: Sequence[str]) -> None:
    """Raise ConfigError about an option of the agent, which a trained policy has for good."""
    computes = OmegaConf.select(trained, PRECISION) is not None  # not every agent has the choice
    for word in overrides:
        if _key(word).partition(".")[0] != "agent" or (computes and _key(word) == PRECISION):
            continue
        choice = f", or {PRECISION}" if computes else ""
        raise ConfigError(
            f"{word} is for a training, and the policy is trained; expected options of its world{choice}; "
            "leave it out, or begin a new training from the policy with navrl train init="
        )


def _with_interface_of(
    trained: DictConfig, config: DictConfig, overrides: Sequence[str]
) -> DictConfig:
    """Return the configuration with the agent, observation and action that a policy was trained with."""
    precision = OmegaConf.select(config, PRECISION)
    with open_dict(config):
        for key in ("agent", *_INTERFACE):
            own = OmegaConf.select(trained, key)
            if own is not None and OmegaConf.select(config, key) is not None:
                OmegaConf.update(config, key, own, merge=False)
        if any(_key(word) == PRECISION for word in overrides):
            OmegaConf.update(config, PRECISION, precision)
    return config


def spelled_out(word: str) -> list[str]:
    """Return opponent=checkpoint:<reference> as the two overrides that it stands for."""
    group, _, reference = word.partition("=checkpoint:")
    if group != "opponent":
        return [word]
    quoted = reference[:1] in ("'", '"')
    chosen = f"{OPPONENT}={reference}" if quoted else override(OPPONENT, reference)
    return ["opponent=checkpoint", chosen]


def _composed(overrides: Sequence[str]) -> tuple[DictConfig, Mapping[str, Any]]:
    """Return a training's configuration, and the option of every group."""
    config = compose_all("train", overrides)
    choices = dict(config.hydra.runtime.choices)
    with open_dict(config):
        del config["hydra"]
    return config, choices
