"""plugins=: classes and YAML of a user's package in every command, and nothing on a stranger's word."""

import json
import sys

import pytest

import navrl.evaluate
import navrl.train
from navrl.api.runs import Run
from navrl.commands import replay
from navrl.config import plugins
from navrl.config.checks import ConfigError
from navrl.config.compose import build, compose, from_json
from tests.command_line import command

pytestmark = pytest.mark.commands

FILES = {
    "__init__.py": "from pathlib import Path\nPath('imported').touch()\n",
    "rewards.py": (
        "import os\nfrom functools import partial\nimport torch\n"
        "def alive(transition):\n"
        '    """Return 0.01 for every step."""\n'
        "    return torch.full_like(transition.terminated, 0.01, dtype=torch.float32)\n"
    ),
    "conf/reward/staying.yaml": (
        "_target_: navrl.envs.WeightedReward\n"
        "terms: {alive: {_target_: mylab.rewards.alive, _partial_: true}}\nweights: {alive: 1.0}\n"
    ),
    "conf/experiment/lab.yaml": (
        "# @package _global_\nnum_envs: 4\nrollout_steps: 4\ntotal_frames: 32\ncompile: 'off'\n"
        "eval_episodes: 4\neval_opponents: []\nagent: {num_minibatches: 2, network: {hidden_sizes: [8]}}\n"
        "env: {sim: {time_limit_s: 5}}\n"
    ),
}


@pytest.fixture
def lab(tmp_path, monkeypatch):
    """A folder with the package mylab, in which commands are run."""
    for name, text in FILES.items():
        file = tmp_path / "mylab" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(plugins, "_typed", [])
    yield tmp_path
    for name in [name for name in sys.modules if name.partition(".")[0] == "mylab"]:
        del sys.modules[name]


def forget():
    """Begin as a new process does."""
    plugins._typed.clear()


RUN = (
    "plugins=[mylab]",
    "reward=staying",
    "experiment=lab",
    "logger=none",
    "hydra.run.dir=outputs/a",
)


def test_a_reward_of_a_users_package_in_all_commands(lab, capsys):
    assert command(navrl.train.main, *RUN) == 0
    alive = Run("outputs/a").metrics["reward/alive"][-1]
    assert alive == pytest.approx(5 * 0.01)  # decisions of a second in an episode
    assert "resume=outputs/a 'plugins=[mylab]' total_frames=64" in capsys.readouterr().out
    assert json.loads((lab / "outputs/a/status.json").read_text())["state"] == "finished"
    for words in (
        (navrl.train.main, "resume=outputs/a", "total_frames=64"),
        (navrl.evaluate.main, "checkpoint=outputs/a", "num_episodes=2"),
        (lambda: sys.exit(replay.main()), "outputs/a", "--output", "a.html"),
    ):
        main, *rest = words
        forget()
        capsys.readouterr()
        assert command(main, *rest) == 2
        assert (
            "'mylab.rewards.alive', which a checkpoint's configuration may not build; if you trust that"
            in capsys.readouterr().err
        )
        forget()
        assert command(main, *rest, "plugins=[mylab]") == 0, capsys.readouterr().err


def test_nothing_of_it_is_imported_before_a_configuration_names_its_class(lab):
    assert compose("train", ["plugins=[mylab]", "experiment=lab"]).num_envs == 4
    assert not (lab / "imported").exists()
    build(compose("train", ["plugins=[mylab]", "reward=staying"]).reward)
    assert (lab / "imported").exists()


@pytest.mark.parametrize("stored", [["mylab"], "mylab", {"a": 1}, "${oc.env:HOME}"])
def test_what_a_file_names_is_not_imported(lab, monkeypatch, stored):
    monkeypatch.syspath_prepend(lab)
    config = {"plugins": stored, "reward": {"_target_": "mylab.rewards.alive", "_partial_": True}}
    with pytest.raises(ConfigError, match=r"add plugins=\[mylab\]"):
        build(from_json(config).reward, from_checkpoint=True)
    assert not (lab / "imported").exists()
    assert from_json(config).plugins == []


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        ("mylab.rewards.aliv", "did you mean 'alive'"),
        ("mylab.rewards.partial", "expected a class or function that mylab.rewards defines"),
        ("mylab.rewards.os.system", "there is no such module"),
        ("mylab.absent.alive", "there is no such module"),
        ("other.alive", r"add plugins=\[other\]"),
    ],
)
def test_only_what_the_package_defines_itself(lab, target, sentence):
    plugins.allow_plugins(["plugins=mylab"])
    with pytest.raises(ConfigError, match=sentence):
        build(compose("train", [f"+x._target_={target}"]).x)


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("plugins=[nolab]", "plugins = nolab; expected a package that Python finds"),
        ("plugins=[my.lab]", "expected names of packages"),
        ("plugins=[navrl]", "expected names of packages"),
        ("plugins=[1]", "expected names of packages"),
        ("plugins=[", "Cannot read"),
    ],
)
def test_a_wrong_name_is_one_sentence(lab, word, sentence):
    with pytest.raises(ConfigError, match=sentence):
        plugins.allow_plugins([word])
    assert plugins.allowed() == []


def test_an_installed_package_with_our_entry_point_is_allowed(lab, monkeypatch):
    site = lab / "site"
    info = site / "mylab-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mylab\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[navrl.plugins]\nmylab = mylab\n")
    monkeypatch.syspath_prepend(site)
    monkeypatch.syspath_prepend(lab)
    plugins._installed.cache_clear()
    try:
        assert plugins.allowed() == ["mylab"]
        assert compose("train", ["reward=staying"]).reward.weights == {"alive": 1.0}
    finally:
        plugins._installed.cache_clear()


def test_every_command_with_options_of_a_training_takes_a_folder_of_yaml(lab, capsys, monkeypatch):
    monkeypatch.setattr(plugins, "_folders", [])
    file = lab / "yaml" / "scenario" / "close.yaml"
    file.parent.mkdir(parents=True)
    file.write_text("_target_: navrl.envs.combat.scenarios.MidRandom\n")
    main = lambda: sys.exit(replay.main())  # noqa: E731
    words = ("scripted:crank", "scenario=close", "--output", "b.html")
    assert command(main, *words) == 2
    assert "Unknown scenario 'close'" in capsys.readouterr().err
    assert command(main, *words, "--config-dir", "nowhere") == 2
    assert "--config-dir nowhere; expected a folder" in capsys.readouterr().err
    assert command(main, *words, "--config-dir", "yaml") == 2
    assert "'scenario' lacks" in capsys.readouterr().err  # it was read: a scenario without numbers


def test_nobody_is_advised_to_allow_what_comes_with_python():
    with pytest.raises(ConfigError, match=r"configuration may not build$"):
        build({"_target_": "os.system"}, from_checkpoint=True)
