"""Files named by a stored configuration: read only if the command line names them again."""

import importlib
import inspect
import os
import pkgutil
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

import navrl
import navrl.evaluate
import navrl.train
from navrl.commands import import_navrl, replay
from navrl.config.build import READ_BY, parameters_of
from navrl.config.checks import ConfigError
from navrl.config.compose import compose, conf_dir, from_json, to_json
from navrl.run.policies import find_policy
from navrl.run.stored_files import files_read, files_typed, repeated, require_typed
from navrl.storage.checkpoint import load, write_state
from navrl.storage.find import find
from tests.command_line import command

pytestmark = pytest.mark.hostile
TINY = (
    *(
        "experiment=debug",
        "logger=none",
        "console=lines",
        "eval_opponents=[]",
        "env.sim.tick_s=0.25",
    ),
    *("total_frames=128", "compile=off"),
)
SECRET = "/etc/passwd"
FROZEN = {
    **{"_target_": "navrl.envs.combat.opponents.Frozen", "checkpoint": SECRET},
    **{"observation": "${observation}", "action": "${action}"},
}
MAP = {"_target_": "navrl.envs.navigation.maps.UserMap", "path": SECRET, "max_boxes": 1}
OPENED = []
sys.addaudithook(lambda event, found: event == "open" and OPENED.append(str(found[0])))
PLACES = {  # where a stranger hides it, and the words that repeat it
    "the opponent": ({"opponent": FROZEN}, "opponent.checkpoint=/etc/passwd"),
    "a seat": ({"env": {"opponent": FROZEN}}, "env.opponent.checkpoint=/etc/passwd"),
    "an alias": ({"a": FROZEN, "opponent": "${a}"}, "a.checkpoint=/etc/passwd"),
    "the name of the class": (
        {"a": FROZEN["_target_"], "opponent": {**FROZEN, "_target_": "${a}"}},
        "opponent.checkpoint=/etc/passwd",
    ),
    "the path": (
        {"a": SECRET, "opponent": {**FROZEN, "checkpoint": "${a}"}},
        "checkpoint=/etc/passwd",
    ),
    "a list": ({"reward": [{"x": [MAP]}]}, "reward.0.x.0.path=/etc/passwd"),
    "another class's option": ({"agent": {"network": MAP}}, "agent.network.path=/etc/passwd"),
    "a lesson": ({"curriculum": {"lessons": [FROZEN]}}, "lessons.0.checkpoint=/etc/passwd"),
}


def train(*words):
    return command(navrl.train.main, *words)


def evaluate(*words):
    return command(navrl.evaluate.main, "num_episodes=1", *words)


def played(*words):
    return command(lambda: sys.exit(replay.main()), *words)


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A run against crank, and one against that run's policy."""
    folder = tmp_path_factory.mktemp("original")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert train(*TINY, "opponent=crank", "hydra.run.dir=outputs/first") == 0
        assert train(*TINY, "opponent=checkpoint", "hydra.run.dir=outputs/second") == 0
    return folder


@pytest.fixture
def runs(original, tmp_path, monkeypatch):
    shutil.copytree(original, tmp_path, dirs_exist_ok=True, symlinks=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "outputs"


def changed(run, changes):
    """Write a stranger's options into the configuration of the run's newest checkpoint."""
    file = find(run, Path("outputs"))
    state = load(file)
    for key, value in changes.items():
        both = isinstance(value, dict) and "_target_" not in value
        state["config"][key] = {**state["config"].get(key, {}), **value} if both else value
    write_state(file, state, frames=state["frames"], score=None)


@pytest.mark.parametrize("place", PLACES)
def test_no_command_reads_a_file_that_only_a_stranger_named(runs, capfd, place):
    changes, words = PLACES[place]
    changed("first", changes)
    OPENED.clear()
    for run, arguments in (
        (train, ("resume=outputs/first", "total_frames=256")),
        (
            train,
            (
                *TINY,
                "hydra.run.dir=outputs/first",
                "resume=auto",
                "opponent=crank",
                "total_frames=256",
            ),
        ),
        (evaluate, ("checkpoint=outputs/first",)),
        (played, ("outputs/first",)),
        (evaluate, ("checkpoint=scripted:crank", "opponent=checkpoint:outputs/first")),
        (train, (*TINY, "opponent=checkpoint", "opponent.checkpoint=outputs/first")),
    ):
        if place in ("the opponent", "an alias", "the name of the class", "the path") and any(
            "opponent" in word and "first" in word for word in arguments
        ):
            continue  # its opponent is not built then
        assert run(*arguments) in (1, 2), arguments
        err = capfd.readouterr().err
        (line,) = [line for line in err.splitlines() if line.startswith("navrl: ")]
        assert f"= {SECRET}; expected" in line
    assert SECRET not in OPENED
    assert words.rpartition("=")[2] == SECRET


def test_the_sentence_names_the_key_and_the_words(runs, capfd):
    changed("first", {"opponent": FROZEN})
    assert evaluate("checkpoint=outputs/first") == 2
    assert capfd.readouterr().err == (
        "navrl: error: the stored configuration would read opponent.checkpoint = /etc/passwd; expected it "
        "to be repeated on the command line, because somebody else may have written it; add "
        "opponent.checkpoint=/etc/passwd\n"
    )
    assert evaluate("checkpoint=outputs/first", "opponent.checkpoint=/etc/passwd") == 2
    assert "/etc/passwd is not a file of navrl" in capfd.readouterr().err  # the user's own wish
    found = find_policy("outputs/first", device="cpu", overrides=["opponent=crank"])
    assert "checkpoint" not in found.config.opponent


@pytest.mark.parametrize(
    "word",
    ["outputs/first", "first", "latest", "best", "outputs", "./outputs/first/checkpoints", "/"],
)
def test_what_the_user_typed_may_have_meant_it(runs, word):
    (file,) = Path("outputs/first/checkpoints").glob("step*.ckpt")
    config = compose("train", ["opponent=checkpoint", f"opponent.checkpoint={file}"])
    require_typed(config, [word], [])
    require_typed(config, [str(file.absolute())], [])
    config.opponent.checkpoint = "outputs/first/checkpoints/../../../../elsewhere.ckpt"
    if word != "/":
        with pytest.raises(ConfigError, match="elsewhere"):
            require_typed(config, [word], [])


def test_a_link_out_of_the_outputs_is_not_the_latest_run(runs):
    os.symlink(SECRET, "outputs/first/checkpoints/step_9.ckpt")
    config = compose("train", ["opponent=checkpoint"])
    config.opponent.checkpoint = "outputs/first/checkpoints/step_9.ckpt"
    for word in ("latest", "outputs/first", "best"):
        with pytest.raises(ConfigError, match="step_9"):
            require_typed(config, [word], [])


def test_commands_that_navrl_prints_repeat_the_files(original, monkeypatch, capfd):
    """A run against `latest`: resumed, restarted and measured with the words it prints."""
    monkeypatch.chdir(original)
    (file,) = Path("outputs/first/checkpoints").resolve().glob("step*.ckpt")
    own = (*TINY, "opponent=checkpoint", "hydra.run.dir=outputs/second")
    assert train(*own, "resume=auto", "total_frames=256") == 0, capfd.readouterr().err
    assert train("resume=outputs/second", "total_frames=512") == 2
    hint = capfd.readouterr().err.strip().rpartition("; add ")[2]
    assert hint == f"env=combat opponent=checkpoint opponent.checkpoint={file}"
    assert train("resume=outputs/second", "total_frames=512", "console=lines", *hint.split()) == 0
    evaluating, resuming = capfd.readouterr().out.strip().splitlines()[-2:]
    assert resuming.split()[-5:-1] == ["resume=outputs/second", *hint.split()]
    assert evaluating.split()[-2:] == ["checkpoint=outputs/second", hint.split()[-1]]
    _, word = evaluating.split()[3:]
    assert find_policy("outputs/second", device="cpu", overrides=[word])
    assert load(find("second", Path("outputs")))["config"]["opponent"]["checkpoint"] == str(file)
    assert find_policy("outputs/second", device="cpu", overrides=["opponent=checkpoint"])


def test_a_map_of_a_run_is_repeated(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("map.npy", np.zeros((2, 2)))
    words = ["env=navigation", "world=file", "world.map.path=map.npy", "world.map.max_boxes=7"]
    config = compose("train", words)
    assert files_read(config) == {"map.npy": "world.map.path"}
    stored = from_json(to_json(config))
    again = repeated(stored, {"env": "navigation", "world": "file"})
    assert again.train == ("env=navigation", "world=file", "world.map.path=map.npy")
    assert again.evaluate == ("world.map.path=map.npy",)
    require_typed(stored, files_typed(again.evaluate), ())
    require_typed(stored, files_read(compose("train", list(again.train))), ())
    with pytest.raises(ConfigError, match=r"world\.map\.path = map\.npy"):
        require_typed(stored, files_typed(["world=forest", "env.sim.time_limit_s=3"]), ())


@pytest.mark.parametrize("file", [SECRET, "../x.xml", "~/x", "here.xml"])
def test_options_of_a_world_from_elsewhere_may_name_files(tmp_path, monkeypatch, file):
    monkeypatch.chdir(tmp_path)
    Path("here.xml").touch()
    options = [
        f"++env.options.xml_file='{file}'",
        "++env.options.deep.kind=fast",
        "++env.options.size=3",
    ]
    stored = from_json(to_json(compose("train", ["env=gym", "env.id=Ant-v5", *options])))
    assert files_read(stored) == {file: "env.options.xml_file"}
    again = repeated(stored, {"env": "gym"})
    require_typed(stored, files_typed(again.evaluate), ())
    require_typed(stored, files_read(compose("train", list(again.train))), ())
    with pytest.raises(ConfigError, match=r"env\.options\.xml_file"):
        require_typed(stored, files_typed(["env.horizon=3"]), ())


def test_choices_of_a_stranger_are_no_words(tmp_path):
    config = compose("train", ["env=navigation", "world=file", "world.map.path=map.npy"])
    for bad in ("$(id)", "a b", "x,y", 3, None, ["a"]):
        assert repeated(config, {"env": bad, "world": bad}).train == ("world.map.path=map.npy",)


def test_an_exported_policy_of_a_stranger_reads_nothing(runs, capfd):
    config = to_json(compose("train", ["env=navigation", "agent=ppo_navrl", "world=file"]))
    config["world"]["map"]["path"] = SECRET
    changed("first", config)
    assert import_navrl.main(["--export", "outputs/first"]) == 2
    assert "Traceback" not in capfd.readouterr().err


def test_scripted_policies_read_what_the_user_typed(runs):
    found = find_policy(
        "scripted:crank", device="cpu", overrides=["opponent=checkpoint:outputs/first"]
    )
    assert found.config.opponent.checkpoint.startswith("outputs/first/checkpoints/")


def test_every_class_that_takes_a_path_is_in_the_table():
    """Constructors that a stored configuration may build, and the keys of conf/."""
    looks = re.compile(
        r"(^|_)(path|file|folder|directory|dir|checkpoint|filename|root|uri|url|factory)$|^options$"
    )
    found = {}
    for package in ("agents", "curriculum", "envs", "selfplay"):
        home = importlib.import_module(f"navrl.{package}")
        inside = pkgutil.walk_packages(home.__path__, f"navrl.{package}.")
        for module in (home, *(importlib.import_module(info.name) for info in inside)):
            for name in getattr(module, "__all__", ()):
                thing = getattr(module, name)
                if inspect.isclass(thing):
                    assert thing.__name__ == name, "an alias would pass the table"
                function = thing.__init__ if inspect.isclass(thing) else thing
                if callable(function):
                    keys = tuple(key for key in _parameters(function) if looks.search(key))
                    found |= {name: keys} if keys else {}
    assert found == READ_BY
    keys = set()
    for file in conf_dir().rglob("*.yaml"):
        group = file.relative_to(conf_dir()).parts[0]
        if group not in ("hydra", "logger", "checkpoint", "collector", "rollouts"):
            keys |= {key for key in _keys(yaml.safe_load(file.read_text())) if looks.search(key)}
    assert keys == {key for each in READ_BY.values() for key in each}


def _parameters(function):
    try:
        return parameters_of(function)
    except (TypeError, ValueError):  # a constant
        return ()


def _keys(value):
    if isinstance(value, dict):
        for key, item in value.items():
            yield str(key)
            yield from _keys(item)
    for item in value if isinstance(value, list) else ():
        yield from _keys(item) if not isinstance(item, dict) else _keys(list(item.values()))


def test_a_world_of_torchrl_that_imports_by_name_is_typed_again():
    """GymEnv imports the module of "module:id"."""
    words = ["env=torchrl", "env.factory=torchrl.envs.GymEnv", "+env.options.env_name=evil:Env-v0"]
    stored = compose("train", words)
    for typed in ([], words[1:2], ["env.options.env_name=evil:Env-v0"]):
        with pytest.raises(ConfigError, match=r"somebody else may have written it"):
            require_typed(stored, files_typed(typed), ())
    again = repeated(stored, {"env": "torchrl"})
    require_typed(stored, files_typed(again.evaluate), ())
    require_typed(stored, files_read(compose("train", list(again.train))), ())
