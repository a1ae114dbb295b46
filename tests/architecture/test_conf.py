"""Every YAML option says what its constructor wants: no key more, no key less."""

import importlib
import inspect
import re
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from navrl.config import build
from navrl.config.checks import ConfigError
from navrl.config.compose import build as build_node
from navrl.config.compose import compose, to_json

CONF = Path(__file__).resolve().parents[2] / "conf"
GROUPS = (
    *("env", "agent", "scenario", "reward", "opponent"),
    *("observation", "action", "curriculum", "collector", "checkpoint", "rollouts", "logger"),
)

# Keyword-only parameters that the code supplies when it calls what a `_partial_: true` node gives,
# so that no YAML may set them. Positional parameters of partials are always supplied by the code.
RUNTIME = {
    "env": {"num_envs", "device", "seed"},
    "agent": {"observation_spec", "action_spec", "device", "num_iterations"},
    "curriculum": {"env", "agent", "measure"},
    "collector": {"env", "policy", "rollout_steps", "total_frames", "make_parts", "seed", "inbox"},
    "checkpoint": {"directory"},
    "rollouts": {"directory"},
    "logger": {"directory", "name", "config"},
}
# Options with a default for short worlds of users; ours say everything in their YAML.
OURS = {"env": {"sim", "observation", "headline", "objective", "reward_split"}}


def options(group):
    """The option files of a group, as 'combat' or 'scripted/pursuit'."""
    files = sorted((CONF / group).rglob("*.yaml"))
    return [file.relative_to(CONF / group).with_suffix("").as_posix() for file in files]


def load(group, option):
    """One option as plain data; composed when it has a defaults list of its own."""
    plain = to_json(OmegaConf.load(CONF / group / f"{option}.yaml"))
    if "defaults" in plain:
        plain = to_json(compose("train", [f"{group}={option}"])[group])
    return plain


def nodes(value, path):
    """Every mapping below `value` that has a `_target_`, with its path."""
    if isinstance(value, list):
        value = dict(enumerate(value))
    if isinstance(value, dict):
        if "_target_" in value:
            yield path, value
        for key, item in value.items():
            yield from nodes(item, f"{path}.{key}")


def parameters_of(node):
    """The parameters of the node's target, without self."""
    module, _, name = node["_target_"].rpartition(".")
    target = getattr(importlib.import_module(module), name)
    hidden = inspect.isclass(target) and target.__init__ is not object.__init__
    function = target.__init__ if hidden else target  # a NamedTuple has no __init__ of its own
    return {name: item for name, item in build.parameters_of(function).items() if name != "self"}


def differences(node, runtime, ours):
    """Return the keys that the node lacks, and those that its target does not want set."""
    keys = {key for key in node if key not in ("_target_", "_partial_")}
    partial = bool(node.get("_partial_"))
    wanted = set()
    for name, parameter in parameters_of(node).items():
        optional = parameter.default is not parameter.empty and name not in ours
        if optional or parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            continue
        supplied = partial and (name in runtime or parameter.kind is not parameter.KEYWORD_ONLY)
        wanted |= set() if supplied else {name}
    return sorted(f"missing {name}" for name in wanted - keys) + sorted(
        f"unwanted {name}" for name in keys - wanted
    )


@pytest.mark.parametrize(
    ("group", "option"), [(group, option) for group in GROUPS for option in options(group)]
)
def test_option_matches_its_constructor(group, option):
    wrong = {
        f"{path} ({node['_target_']})": found
        for path, node in nodes(load(group, option), group)
        if (found := differences(node, RUNTIME.get(group, set()), OURS.get(group, set())))
    }
    assert not wrong


@pytest.mark.parametrize("group", ["experiment", "sweep"])
def test_every_preset_composes(group):
    for option in options(group):
        compose("train", [f"{group}={option}"])


@pytest.mark.parametrize("agent", options("agent"))
def test_experiment_debug_goes_with_every_agent(agent):
    """What a training builds first, and what an env has no say in."""
    made = build_node(compose("train", ["experiment=debug", f"agent={agent}"]).agent)
    assert list(made.keywords["network"].hidden_sizes) == [32, 32]


@pytest.mark.commands
@pytest.mark.parametrize("env", options("env"))
def test_experiment_debug_goes_with_every_env_and_agent(env):
    for agent in options("agent"):
        config = compose("train", ["experiment=debug", f"env={env}", f"agent={agent}"])
        assert config.agent.network.hidden_sizes == [32, 32]


def test_commands_compose():
    compose("train")
    compose("evaluate", ["policy=somewhere"])


def test_every_env_has_a_reward_of_its_name():
    assert set(options("env")) <= set(options("reward"))


def test_the_names_that_others_give_it_are_understood():
    with pytest.raises(ConfigError, match=r"'agent\.gamma'; did you mean 'agent\.discount'"):
        compose("train", ["agent.gamma=0.9"])


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        (
            "collector.unpacked_share=0.5",
            "'collector.unpacked_share' is an option of collector=compressed; choose it, or leave "
            "collector.unpacked_share= out",
        ),
        (
            "env.sim.num_drones=3",
            "'env.sim.num_drones' is an option of env=coverage, coverage_compat, coverage_relay; choose "
            "one of them, or leave env.sim.num_drones= out",
        ),
    ],
)
def test_an_option_of_another_choice_names_that_choice(override, sentence):
    with pytest.raises(ConfigError, match=f"^{re.escape(sentence)}$"):
        compose("train", [override])


def test_an_option_that_no_world_has_is_compared_with_those_of_the_chosen_env():
    with pytest.raises(ConfigError, match=r"'world\.path'; did you mean 'world\.map\.path'"):
        compose("train", ["env=navigation", "world=file", "world.path=map.png"])
