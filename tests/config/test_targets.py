"""A configuration builds our own classes and nothing else; mistakes are one sentence."""

import functools
import importlib
import pkgutil

import pytest
from omegaconf import OmegaConf

from navrl.config import build as build_module
from navrl.config.build import is_ours
from navrl.config.checks import ConfigError
from navrl.config.compose import build, compose


def test_builds_nested_objects_and_partials_from_plain_data():
    config = compose("train", ["num_envs=3"])
    factory = build(config.env)
    assert isinstance(factory, functools.partial)
    assert factory(device="cpu").num_envs == 3
    config.agent.env = {"_target_": "navrl.envs.toy.Env", "name": "x", "num_envs": 1, "device": "y"}
    config.reward = {"weights": [1.0, {"a": 2}]}
    assert build(config.agent).env.name == "x"
    assert type(build(config.reward)["weights"]) is list
    assert build(None) is None


@pytest.mark.parametrize(
    "target",
    [
        "os.system",
        "builtins.eval",
        "pickle.loads",
        "functools.partial",
        "numpy.f2py.crackfortran.getlincoef",
        "torch.load",
        "torchrl.collectors.Collector",
        "navrl.envs.core.env.BatchedEnv",  # ours, but of a private file
        "hydra._internal.instantiate._instantiate2.instantiate",
        "navrl",
        "navrl.build",
        "navrl.config.compose.build",
        "navrl.run.directory.RunDirectory",
        "navrl.envs.toy.system",  # ours in name, os.system in truth
        "navrl.envs.toy.modules",
        "navrl.envs.toy.Env.__init__",
        "",
    ],
)
def test_targets_outside_the_list_are_refused(target):
    node = {"inner": [{"_target_": target, "command": "touch hacked"}]}
    with pytest.raises(ConfigError, match=r"env\.inner\[0\]\._target_"):
        build(OmegaConf.create({"env": node}).env)


@pytest.mark.parametrize("key", ["_args_", "_convert_", "_recursive_", "_mode_"])
def test_hydras_other_special_keys_are_refused(key):
    with pytest.raises(ConfigError, match=f"'config.{key}' is not supported"):
        build({"_target_": "navrl.envs.toy.Env", key: 1})


def test_a_mistake_names_the_place_where_it_was_written():
    size = {"_target_": "navrl.envs.toy.Size", "width": 1, "height": "tall"}
    env = {"_target_": "navrl.envs.toy.Env", "name": "${size}", "num_envs": 1, "device": "cpu"}
    config = OmegaConf.create({"env": env, "size": size})
    with pytest.raises(ConfigError, match=r"^'size\.height' must be int"):
        build(config.env)


def test_a_place_is_named_once():
    node = {"_target_": "navrl.envs.toy.Env", "name": "x", "num_envs": 0, "device": "cpu"}
    with pytest.raises(ConfigError, match=r"^env: num_envs = 0"):
        build(OmegaConf.create({"env": node}).env)
    noise = {
        "_target_": "navrl.envs.navigation.sim.LidarNoise",
        "range_sigma_m": 0.0,
        "dropout": 2.0,
    }
    with pytest.raises(ConfigError, match=r"^env\.sim\.noise\.dropout = 2\.0"):
        build(OmegaConf.create({"env": {"sim": {"noise": noise}}}).env)


def test_named_tuples_are_checked_like_classes():
    node = {"_target_": "navrl.envs.toy.Size", "width": 1, "height": 2}
    assert build(node) == (1, 2)
    with pytest.raises(ConfigError, match="did you mean 'width'"):
        build({**node, "widht": 3})
    with pytest.raises(ConfigError, match=r"'config\.height' must be int, but got 2\.5"):
        build({**node, "height": 2.5})


def test_a_target_cannot_hide_behind_an_interpolation():
    config = OmegaConf.create({"name": "os.system", "a": {"_target_": "${name}"}})
    with pytest.raises(ConfigError, match=r"os\.system"):
        build(config.a)
    late = r"\${oc.create:{_target_: os.system}}"  # a second resolution would make a node of it
    config = OmegaConf.create({"a": {"x": late}})
    assert build(config.a) == {"x": late.removeprefix("\\")}


def test_a_checkpoints_configuration_builds_no_writers():
    node = {"_target_": "navrl.loggers.NullLogger", "_partial_": True}
    assert isinstance(build(node), functools.partial)
    with pytest.raises(ConfigError, match="a checkpoint's configuration may not build"):
        build(node, from_checkpoint=True)
    env = {"_target_": "navrl.envs.toy.Env", "_partial_": True}
    assert isinstance(build(env, from_checkpoint=True), functools.partial)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"num_env": 1},
            "Unknown key 'config.num_env' for navrl.envs.toy.Env; did you mean 'num_envs'",
        ),
        ({"wings": 2}, "toy.Env; leave it out, or the experiment= or curriculum= that sets it"),
        ({"num_envs": "abc"}, "'config.num_envs' must be int, but got 'abc'"),
        ({"num_envs": True}, "'config.num_envs' must be int, but got True"),
        ({"num_envs": 0}, "num_envs = 0 must be at least 1"),
        ({"_target_": "navrl.envs.toy.Enw"}, "does not export; did you mean 'Env'?"),
        ({"_target_": "navrl.envs.nothing.Env"}, "there is no such module"),
    ],
)
def test_constructor_mistakes_are_one_sentence(change, sentence, toy):
    toy.Env.__init__.__qualname__ = "Env.__init__"
    node = {"_target_": "navrl.envs.toy.Env", "name": "x", "num_envs": 1, "device": "cpu", **change}
    with pytest.raises(ConfigError) as caught:
        build(node)
    assert sentence in " ".join(str(caught.value).split())


def test_what_another_version_did_not_save_is_named():
    config = OmegaConf.create(
        {"sim": {"_target_": "navrl.envs.coverage.sim.Radio", "channel": "urban"}}
    )
    with pytest.raises(
        ConfigError, match=r"^'sim' lacks 'shadowing', which Radio needs; .*version"
    ):
        build(config.sim, from_checkpoint=True)


@pytest.mark.parametrize(
    "target", ["navrl.agents.ppo.PPO", "navrl.sim.combat.Gone", "navrl.envs.gone.Env"]
)
def test_a_target_of_another_version_in_a_checkpoint_says_so(target):
    package = target.split(".")[1]
    reason = "saved by another version; use that version" if package != "sim" else "may not build"
    with pytest.raises(ConfigError, match=f"^'config._target_' names '{target}'.*{reason}"):
        build({"_target_": target, "_partial_": True}, from_checkpoint=True)


def test_the_allow_list_holds_nothing_but_our_own_classes_and_functions():
    offered = [
        getattr(module, name)
        for package in build_module._SIMULATION | build_module._RECORDING
        for info in pkgutil.walk_packages(
            importlib.import_module(f"navrl.{package}").__path__, f"navrl.{package}."
        )
        for module in [importlib.import_module(info.name)]
        for name in getattr(module, "__all__", ())
    ]
    assert len(offered) > 50
    foreign = [item for item in offered if not is_ours(getattr(item, "__module__", ""))]
    assert not foreign
    with pytest.raises(ConfigError, match="does not export"):  # it would write any file
        build({"_target_": "navrl.storage.container.write", "_partial_": True})
