"""Whom a command is about: a policy by its name, the env that it plays in, and its opponent."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig, OmegaConf, open_dict
from tensordict import TensorDictBase

from navrl.agents.scripted import RandomPolicy, ScriptedPolicy
from navrl.checkpoint import check_fits, find, load
from navrl.config import ConfigError, build, compose, from_json
from navrl.opponents.frozen import Frozen, Seat
from navrl.options import pick_device

OUTPUTS = Path("outputs")
SCRIPTED = "scripted:"

Act = Callable[[TensorDictBase], TensorDictBase]


def find_subject(
    policy: str, *, device: str, opponent: Any = None, overrides: Sequence[str] = ()
) -> tuple[DictConfig, dict[str, Any] | None, str]:
    """Configuration, checkpoint if any, and name of a policy; `opponent` is YAML, None: the run's own."""
    state: dict[str, Any] | None = None
    if policy.startswith(SCRIPTED):
        config, label = compose("train", overrides), policy
    else:
        path = find(policy, OUTPUTS)
        state = load(path)
        config, label = from_json(state["config"]), str(path)
    with open_dict(config):
        config.device = device
        if opponent is not None:
            config.opponent = opponent
        if (
            config.eval_scenario is not None
        ):  # then training draws openings that no evaluation means
            config.scenario = scenario_option(config.eval_scenario)
    pin_opponent(config)
    return config, state, label


def build_policy(policy: str, config: DictConfig, state: dict[str, Any] | None, env: Any) -> Act:
    """The policy of that name, made for `env`."""
    if state is not None:
        agent = build(config.agent, from_checkpoint=True)(
            observation_spec=env.observation_spec,
            action_spec=env.action_spec,
            device=env.device,
            num_iterations=1,
        )
        load_agent(agent, state, "the checkpoint")
        return agent.policy
    name = policy[len(SCRIPTED) :]
    if name == "random":
        return RandomPolicy(env=env)
    try:
        option = opponent_option(name)
    except ConfigError as error:
        raise ConfigError(
            str(error).replace("Unknown opponent", "Unknown scripted policy")
        ) from error
    return ScriptedPolicy(env=env, pilot=build(option))


def build_env(
    config: DictConfig, *, num_envs: int, seed: int, compile_mode: str, first_env_id: int = 0
) -> Any:
    """The env of a run's configuration, in another size and with other episodes."""
    config = config.copy()
    with open_dict(config):
        config.compile = compile_mode
    factory = build(config.env, from_checkpoint=True)
    device = pick_device(config.device)
    env = factory(num_envs=num_envs, device=device, seed=seed, first_env_id=first_env_id)
    install_opponent(env)
    return env


def load_agent(agent: Any, state: Mapping[str, Any], origin: str) -> None:
    """The agent's saved state into `agent`, after a look at every name and shape."""
    for name in ("policy", "critic"):
        check_fits(getattr(agent, name).state_dict(), state["agent"][name], origin)
    agent.load_state_dict(state["agent"])


def opponent_option(name: str) -> Any:
    """The YAML of one opponent, by name."""
    return compose("train", [f"opponent={name}"]).opponent


def scenario_option(name: str) -> Any:
    """The YAML of one scenario, by name."""
    return compose("train", [f"scenario={name}"]).scenario


def opponent_name(config: DictConfig) -> str:
    """What the opponent of a configuration is called; a checkpoint goes by its place."""
    if "checkpoint" in config.opponent:
        return str(config.opponent.checkpoint)
    return str(config.opponent._target_).rpartition(".")[2].lower()


def pin_opponent(config: DictConfig) -> None:
    """The file of a checkpoint as opponent: "latest" is another one as soon as this run saves."""
    reference = OmegaConf.select(config, "opponent.checkpoint")
    if reference is not None:
        with _about_opponent(reference):
            config.opponent.checkpoint = str(find(str(reference), OUTPUTS))


def install_opponent(env: Any) -> None:
    """Where the opponent is a checkpoint, its policy; it sees and acts as it was trained to."""
    opponent = getattr(env, "opponent", None)
    if not isinstance(opponent, Frozen):
        return
    with _about_opponent(opponent.checkpoint), torch.random.fork_rng(devices=[]):
        path = find(opponent.checkpoint, OUTPUTS)
        state = load(path)
        config = from_json(state["config"])
        if config.env.name != env.name or config.env.team_size != env.team_size:
            raise ConfigError(
                f"it plays {config.env.name} with {config.env.team_size} a side; expected {env.name} "
                f"with {env.team_size}"
            )
        with open_dict(config):
            config.opponent = opponent_option("straight")  # specs need an env, and that an opponent
            config.device = str(env.device)
        home = build_env(config, num_envs=1, seed=0, compile_mode="off")
        policy: Any = build_policy(str(path), config, state, home)
        seat = Seat(
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
