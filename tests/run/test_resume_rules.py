"""Rules of a resume: it loses nothing, and a file from elsewhere decides nothing here."""

import json
import re
import shutil

import pytest

import navrl.evaluate
import navrl.train
from navrl.config.compose import compose, to_json
from navrl.config.resumed import changes, resumed
from navrl.loggers.jsonl import read_metrics
from navrl.storage.checkpoint import load, write_state
from navrl.storage.container import read, write
from navrl.storage.find import find
from tests.command_line import command

TINY = (
    *("experiment=debug", "logger=none", "console=none", "eval_opponents=[]", "opponent=crank"),
    "env.sim.tick_s=0.25",
)


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A folder with a finished run of four iterations, saved after two and four."""
    folder = tmp_path_factory.mktemp("original")
    options = ("total_frames=512", "checkpoint.save_every=2", "hydra.run.dir=outputs/run")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert train(*TINY, *options) == 0
    return folder


@pytest.fixture
def finished(original, tmp_path, monkeypatch):
    """A copy of the finished run; its folder is the current one."""
    shutil.copytree(original, tmp_path, dirs_exist_ok=True, symlinks=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "outputs" / "run"


def train(*arguments):
    """The train command's exit code."""
    return command(navrl.train.main, *arguments)


def snapshot(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_lone_checkpoint_file_starts_a_folder_of_its_own(finished, tmp_path):
    (tmp_path / "deep" / "er").mkdir(parents=True)
    shutil.copy(find("run", tmp_path / "outputs"), tmp_path / "deep" / "er" / "my.ckpt")
    resume = ("resume=deep/er/my.ckpt", "total_frames=640", "console=none")
    assert train(*resume, "hydra.run.dir=outputs/mine") == 0
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["er"]
    assert load(find("mine", tmp_path / "outputs"))["iteration"] == 5


@pytest.mark.parametrize(
    ("part", "target"), [("agent", "navrl.agents.ppo.PPO"), ("env", "navrl.envs.combat.CombatEnv")]
)
def test_a_run_of_another_version_is_refused_in_one_sentence(finished, capsys, part, target):
    file = find(str(finished), finished.parent)
    state = load(file)
    state["config"][part]["_target_"] = target
    write_state(file, state, frames=state["frames"], score=None)
    before = snapshot(finished)
    for main, words in (
        (navrl.train.main, ("resume=outputs/run", "total_frames=640")),
        (navrl.evaluate.main, ("checkpoint=outputs/run", "num_episodes=1")),
    ):
        assert command(main, *words) == 2
        assert capsys.readouterr().err == (
            f"navrl: error: '{part}._target_' names '{target}', which this version of navrl does not have: "
            "the run was saved by another version; use that version, or train again\n"
        )
    assert snapshot(finished) == before


def test_an_older_checkpoint_branches_and_leaves_the_run_alone(finished, tmp_path):
    before = snapshot(finished)
    old = finished / "checkpoints" / "step_000000000256.ckpt"
    assert train(f"resume={old}", "console=none", "hydra.run.dir=outputs/branch") == 0
    assert snapshot(finished) == before
    rows = read_metrics(tmp_path / "outputs" / "branch" / "metrics.jsonl")
    assert [row["iteration"] for row in rows] == [3, 4]


def test_the_own_folder_as_run_dir_loses_nothing(finished):
    resume = ("resume=outputs/run", "total_frames=640", "console=none")
    assert train(*resume, "hydra.run.dir=outputs/run") == 0
    assert [row["iteration"] for row in read_metrics(finished / "metrics.jsonl")] == [1, 2, 3, 4, 5]


def test_a_second_start_in_the_same_folder_is_refused(finished, capsys):
    before = snapshot(finished)
    assert train(*TINY, "total_frames=256", "hydra.run.dir=outputs/run") == 1
    assert "holds a run already; go on with resume=" in capsys.readouterr().err
    assert snapshot(finished) == before


@pytest.mark.parametrize(
    ("argument", "sentence"),
    [
        ("total_frames=512", "the run is complete at 512 frames"),
        ("seed=99", "keeps its seed (0)"),
        ("rollout_steps=4", "keeps its rollout_steps (8)"),
        ("experiment=demo", "keeps its experiment (debug)"),
        ("agent.network.hidden_sizes=[16,16]", "has shape"),
        ("opponent=straight", "opponent=straight changes what an env remembers"),
    ],
)
def test_a_refused_resume_changes_nothing(finished, capsys, argument, sentence):
    before = snapshot(finished)
    arguments = {"total_frames=640", argument} if "total" not in argument else {argument}
    assert train("resume=outputs/run", "console=none", *sorted(arguments)) == 2
    err = capsys.readouterr().err
    assert sentence in err
    assert len(err.strip().splitlines()) == 1
    assert snapshot(finished) == before
    others = [path for path in finished.parent.glob("combat-ppo/*") if path.is_dir()]
    assert others == [], "no empty run folder is left behind"


def test_a_changed_reward_is_printed_in_one_line(finished, capsys):
    resume = ("resume=outputs/run", "console=lines")
    options = (
        "total_frames=640",
        "reward.weights.attack=0.25",
        "agent.optimizer.learning_rate=0.125",
    )
    saved = load(find(str(finished), finished.parent))["config"]["agent"]["optimizer"][
        "learning_rate"
    ]
    assert train(*resume, *options) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "changed against" in line]
    prefix, _, changed = line.partition(": ")
    assert prefix == "changed against the saved run"
    assert set(changed.split(", ")) == {
        "reward.weights.attack 0.1 -> 0.25",
        f"agent.optimizer.learning_rate {saved} -> 0.125",
    }
    assert train(*resume, "total_frames=768") == 0
    assert "changed against" not in capsys.readouterr().out


def test_changes_name_classes_and_stay_short():
    then = {
        "opponent": {"_target_": "a.Crank", "x": 1},
        "seed": 0,
        "console": "auto",
        **numbers(9, 0),
    }
    now = {"opponent": {"_target_": "a.Straight"}, "seed": 0, "console": "none", **numbers(9, 1)}
    sentence = changes(then, now)
    assert sentence.startswith("opponent Crank -> Straight, n0 0 -> 1, ")
    assert sentence.endswith("n4 0 -> 1, and 4 more")
    assert changes(then, then) == ""


def numbers(count, value):
    return {f"n{index}": value for index in range(count)}


def test_a_resume_keeps_the_checkpoint_numbers_and_the_logger_option(finished):
    assert train("resume=outputs/run", "total_frames=768", "console=none") == 0
    saved = load(find(str(finished), finished.parent))
    assert saved["config"]["checkpoint"]["save_every"] == 2
    assert saved["config"]["logger"]["_target_"].endswith("NullLogger")


def test_a_strangers_configuration_reads_no_environment_and_builds_no_logger(finished, capsys):
    path = find(str(finished), finished.parent)
    tensors, meta = read(path)
    text = json.dumps(meta)
    assert '"ammunition"' in text
    hostile = text.replace('"auto"', '"${oc.env:HOME}"', 1)
    assert hostile != text
    write(finished.parent / "hostile.ckpt", tensors, json.loads(hostile))
    assert train("resume=outputs/hostile.ckpt", "total_frames=640", "console=none") == 2
    assert "expected no resolver" in capsys.readouterr().err


def test_options_younger_than_the_run_are_as_they_are_now():
    composed = compose("train", ["experiment=debug"])
    choices = {"agent": "ppo", "env": "combat", "checkpoint": "sync", "collector": "sync"}
    choices |= {"rollouts": "none", "logger": "none"}
    saved = to_json(composed)
    del saved["agent"]["max_kl"], saved["env"]["objective"]
    config = resumed(saved, choices, composed, [], choices)
    assert config.agent.max_kl == composed.agent.max_kl
    assert config.env.objective == composed.env.objective


def test_so_are_options_within_options():
    composed = compose("train", ["experiment=debug", "env=alice_and_bob", "agent=hmasd"])
    choices = {"agent": "hmasd", "env": "alice_and_bob", "checkpoint": "sync", "collector": "sync"}
    choices |= {"rollouts": "none", "logger": "none"}
    saved = to_json(composed)
    del saved["agent"]["actor"]["critic"]
    saved["agent"]["intrinsic"] = {"_target_": "navrl.of.another.kind"}
    config = resumed(saved, choices, composed, [], choices)
    assert config.agent.actor == composed.agent.actor
    assert list(config.agent.intrinsic) == ["_target_"]


def test_an_agent_of_another_version_is_refused_in_one_sentence(finished, capsys):
    """Options of an agent that is not the default cannot be filled in."""
    tensors, meta = read(find("run", finished.parent))
    text = json.dumps(meta).replace('["agent", "ppo"]', '["agent", "mappo"]', 1)
    older = re.sub(r'\["max_kl", [^\[\]]+\], ', "", text, count=1)
    assert len({json.dumps(meta), text, older}) == 3
    write(finished.parent / "older.ckpt", tensors, json.loads(older))
    assert train("resume=outputs/older.ckpt", "total_frames=640", "console=none") == 2
    (sentence,) = capsys.readouterr().err.strip().splitlines()
    assert "another version of navrl, whose agent had other options" in sentence


def test_a_resume_says_when_the_last_bits_will_differ(finished, capsys):
    """Threads, the kind of CPU, and what was compiled, are compared with the checkpoint."""
    resume = ("resume=outputs/run", "console=lines", "compile=off")
    assert train(*resume, "total_frames=640", "threads=1") == 0
    assert "not bit for bit" not in capsys.readouterr().out
    path = find("run", finished.parent)
    state = load(path)
    state["arithmetic"] |= {
        "threads": 2,
        "cpu_capability": "AVX512\x1b[2J",
        "compiled": "the policy",
    }
    write_state(path, state, frames=state["frames"], score=None)
    assert train(*resume, "total_frames=768", "threads=1") == 0
    printed = capsys.readouterr().out
    assert "threads was 2, is 1; compiled was the policy, is nothing" in printed
    assert r"cpu_capability was AVX512\x1b[2J, is " in printed
