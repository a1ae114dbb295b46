"""Whom a command is about: a policy by its name, the env that it plays in, and its opponent."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, cast

import torch
from omegaconf import DictConfig, OmegaConf, open_dict
from tensordict import TensorDictBase

from navrl.agents.scripted import RandomPolicy, ScriptedPolicy
from navrl.config.checks import ConfigError, did_you_mean
from navrl.config.compose import (
    build,
    compose_all,
    from_json,
    group_option,
    group_options,
    overridden,
)
from navrl.contracts import Agent, Env, ScriptedEnv
from navrl.envs.combat.env import CombatEnv
from navrl.envs.combat.opponents.frozen import Frozen, PolicyAdapter
from navrl.run.options import pick_device
from navrl.storage.checkpoint import check_fits, load
from navrl.storage.find import find

OUTPUTS = Path("outputs")
SCRIPTED = "scripted:"
_NO_PILOTS = ("checkpoint", "league", "mixture", "scripts")  # several pilots, or a network
_INTERFACE = ("observation", "action", "env.observation", "env.sim.decision_s", "env.sim.frame")

Act = Callable[[TensorDictBase], TensorDictBase]


class PolicySetup(NamedTuple):
    """A policy and the configuration in which it plays."""

    config: DictConfig
    state: dict[str, Any] | None  # the checkpoint; None of a scripted policy
    label: str
    choices: Mapping[str, Any]  # the option of every group


def find_policy(name: str, *, device: str, overrides: Sequence[str] = ()) -> PolicySetup:
    """Return a policy with the configuration in which it plays: evaluation scenarios and worlds.

    A scripted policy plays in the default env, a trained one in the env of its run. Overrides are those of
    navrl train; env=<name> chooses another env, in which a trained policy keeps its observations and actions.
    """
    overrides = [part for word in overrides for part in _spelled_out(word)]
    envs = [word.partition("=")[2] for word in overrides if word.startswith("env=")]
    state: dict[str, Any] | None = None
    if name.startswith(SCRIPTED):
        label, (config, choices) = name, _composed(overrides)
    else:
        path = _found(name)
        state, label = load(path), str(path)
        own = from_json(state["config"])
        if envs:
            config, choices = _composed(overrides)
            if config.env._target_ != own.env._target_:
                raise ConfigError(
                    f"'{name}' was trained in env={own.env.name} and knows nothing of env={envs[-1]}; "
                    "expected an env of the same kind; change env, or leave it out"
                )
        else:
            config, chosen = overridden(own, overrides)
            choices = {**state["choices"], **chosen}
        config = _interface_kept(config, own)
    config = examination(config, {})
    with open_dict(config):
        config.device = device
    pin_opponent(config)
    return PolicySetup(config, state, label, choices)


def _spelled_out(override: str) -> list[str]:
    """Return opponent=checkpoint:<reference> as the two overrides that it stands for."""
    group, _, reference = override.partition("=checkpoint:")
    if group != "opponent":
        return [override]
    return ["opponent=checkpoint", f"opponent.checkpoint={reference}"]


def _composed(overrides: Sequence[str]) -> tuple[DictConfig, Mapping[str, Any]]:
    """Return a training's configuration, and the option of every group."""
    config = compose_all("train", overrides)
    choices = dict(config.hydra.runtime.choices)
    with open_dict(config):
        del config["hydra"]
    return config, choices


def _found(policy: str) -> Path:
    """The checkpoint of that name; a misspelt word for one gets a hint."""
    try:
        return find(policy, OUTPUTS)
    except FileNotFoundError as error:
        hint = did_you_mean(policy, ("latest", "best"))
        if not hint:
            raise
        raise ConfigError(f"{str(error).rpartition('; ')[0]}{hint}") from error


def examination(config: DictConfig, changes: Mapping[str, Any]) -> DictConfig:
    """The same with the openings and worlds of evaluations, which training never sees, and with `changes`."""
    config = config.copy()
    for group, options in changes.items():
        if group not in config:
            raise ConfigError(
                f"env '{config.env.name}' has no {group}; leave {group}= out, or choose another env"
            )
        with open_dict(config):
            config[group] = options
    if "scenario" in config and config.eval_scenario is not None:
        with open_dict(config):
            config.scenario = group_option("scenario", config.eval_scenario)
    if "held_out" in config.env:
        config.env.held_out = True
    return config


def _interface_kept(elsewhere: DictConfig, config: DictConfig) -> DictConfig:
    """The other env, but the policy sees and decides as it was trained to."""
    with open_dict(elsewhere):
        for key in ("agent", *_INTERFACE):
            own = OmegaConf.select(config, key)
            if own is not None and OmegaConf.select(elsewhere, key) is not None:
                OmegaConf.update(elsewhere, key, own, merge=False)
    return elsewhere


def made(what: str, make: Callable[..., Any], **given: Any) -> Any:
    """The env or agent that a configuration describes, unless one from a checkpoint has other options now."""
    try:
        inspect.signature(make).bind(**given)
    except TypeError as error:
        raise ConfigError(
            f"the checkpoint was saved by another version of navrl, whose {what} had other options: {error}; "
            "use that version, or train again"
        ) from error
    return make(**given)


def build_policy(policy: str, config: DictConfig, state: dict[str, Any] | None, env: Env) -> Act:
    """The policy of that name, made for `env`."""
    if state is not None:
        agent = made(
            "agent",
            build(config.agent, from_checkpoint=True),
            observation_spec=env.observation_spec,
            action_spec=env.action_spec,
            device=env.device,
            num_iterations=1,
        )
        weights = state["agent"]["policy"]  # all there is in an exported one
        check_fits(agent.policy.state_dict(), weights, "the checkpoint")
        agent.policy.load_state_dict(weights)
        return agent.policy
    name = policy[len(SCRIPTED) :]
    if name == "random":
        return RandomPolicy(env=env)
    if env.scripted_group is None:
        raise ConfigError(
            f"env '{env.name}' has no scripted policies but '{SCRIPTED}random', and got '{policy}'; "
            "choose that one or a checkpoint"
        )
    return ScriptedPolicy(
        env=cast(ScriptedEnv, env), pilot=build(scripted_option(env.scripted_group, name))
    )


def scripted_option(group: str, name: str) -> Any:
    """The YAML of one scripted pilot or planner; a mixture, a league and a checkpoint are none."""
    known = [one for one in group_options(group) if one not in _NO_PILOTS]
    if name in known:
        return group_option(group, name)
    other = {"opponent": "planner", "planner": "opponent"}[group]
    homes = {"opponent": "combat", "planner": "navigation"}
    if name in group_options(other) and name not in _NO_PILOTS:
        hint = f"; '{name}' is at home in env={homes[other]}"
    else:
        others = [one for one in group_options(other) if one not in _NO_PILOTS]
        hint = did_you_mean(name, [*known, *others])
    raise ConfigError(f"Unknown scripted policy '{name}'; available: {', '.join(known)}{hint}")


def build_env(
    config: DictConfig, *, num_envs: int, seed: int, compile_mode: str, first_env_id: int = 0
) -> Any:
    """The env of a run's configuration, in another size and with other episodes."""
    config = config.copy()
    with open_dict(config):
        config.compile = compile_mode
    factory = build(config.env, from_checkpoint=True)
    device = pick_device(config.device)
    given = {"num_envs": num_envs, "seed": seed, "first_env_id": first_env_id}
    env = made("env", factory, device=device, **given)
    install_opponent(env)
    return env


def load_agent(agent: Agent, state: Mapping[str, Any], origin: str) -> None:
    """The agent's saved state into `agent`, after a look at every name and shape."""
    for name in ("policy", "critic"):
        check_fits(getattr(agent, name).state_dict(), state["agent"][name], origin)
    agent.load_state_dict(state["agent"])


def opponent_name(
    config: DictConfig, choices: Mapping[str, Any] = MappingProxyType({})
) -> str | None:
    """Return the name of the opponent, or None in an env without one.

    A checkpoint is named by its path, a pilot by the chosen option, or else by its class.
    """
    if "opponent" not in config:
        return None
    if "checkpoint" in config.opponent:
        return str(config.opponent.checkpoint)
    if "scripts" in config.opponent:  # a league, and nobody is in it but in training
        return "scripts"
    if choices.get("opponent") is not None:
        return str(choices["opponent"])
    return str(config.opponent._target_).rpartition(".")[2].lower()


def pin_opponent(config: DictConfig) -> None:
    """The file of a checkpoint as opponent: "latest" is another one as soon as this run saves."""
    reference = OmegaConf.select(config, "opponent.checkpoint")
    if reference is not None:
        with _about_opponent(reference):
            config.opponent.checkpoint = str(find(str(reference), OUTPUTS))


def install_opponent(env: Env) -> None:
    """Where the opponent is a checkpoint, its policy; it sees and acts as it was trained to."""
    if not (isinstance(env, CombatEnv) and isinstance(env.opponent, Frozen)):
        return
    opponent = env.opponent
    with _about_opponent(opponent.checkpoint), torch.random.fork_rng(devices=[]):
        path = find(opponent.checkpoint, OUTPUTS)
        state = load(path)
        config = from_json(state["config"])
        if config.env.name != env.name:
            raise ConfigError(f"it is a run of env={config.env.name}, not {env.name}")
        if config.env.team_size != env.team_size:
            raise ConfigError(
                f"it plays {config.env.name} with {config.env.team_size} a side; expected {env.name} "
                f"with {env.team_size}"
            )
        with open_dict(config):
            config.opponent = group_option(
                "opponent", "straight"
            )  # specs need an env, and that an opponent
            config.device = str(env.device)
        home = build_env(config, num_envs=1, seed=0, compile_mode="off")
        policy: Any = build_policy(str(path), config, state, home)
        seat = PolicyAdapter(
            observation=build(config.env.observation, from_checkpoint=True),
            action=build(config.env.action, from_checkpoint=True),
            compile_mode=env.compile_mode,
        )
        seat.prepare(env.params, env.device)
        opponent.install(policy.requires_grad_(False), seat)


@contextlib.contextmanager
def _about_opponent(reference: str) -> Iterator[None]:
    """Complaints that say where the checkpoint was chosen."""
    try:
        yield
    except (ValueError, OSError) as error:
        raise ConfigError(
            f"opponent.checkpoint = {reference}: {error}; change opponent.checkpoint"
        ) from error
