"""resume=auto: the same command starts a run, goes on with it, and says when there is nothing left to do."""

import json
import shutil
from pathlib import Path

import pytest

import navrl.run.supervisor
import navrl.train
from navrl.loggers.jsonl import read_metrics
from navrl.run import plan
from navrl.storage.checkpoint import load
from navrl.storage.find import find
from tests.command_line import command, process
from tests.halting import STOP_AFTER, train_and_halt

pytestmark = pytest.mark.commands
TINY = (
    *("experiment=debug", "logger=none", "console=none", "eval_opponents=[]", "opponent=crank"),
    *("agent.num_minibatches=4", "agent.max_kl=null"),  # the number of gradient steps is known
    *("num_envs=8", "checkpoint.save_every=1", "env.sim.tick_s=0.25"),
)
AUTO = (*TINY, "resume=auto", "total_frames=192")


def train(*arguments):
    return command(navrl.train.main, *arguments)


def iterations(run):
    return [row["iteration"] for row in read_metrics(Path(run) / "metrics.jsonl")]


def runs():
    return sorted(path for path in Path("outputs/combat-ppo").iterdir() if path.is_dir())


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """A folder with a run without a name of its own, stopped after two of three iterations."""
    folder = tmp_path_factory.mktemp("begun")
    done = process(train_and_halt, *AUTO, folder=folder, environment={STOP_AFTER: "2"})
    assert done.returncode == 143, done.stderr
    return folder


@pytest.fixture
def here(begun, tmp_path, monkeypatch):
    shutil.copytree(begun, tmp_path, dirs_exist_ok=True, symlinks=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_same_command_goes_on_and_then_says_that_it_is_complete(here, capsys):
    assert train(*AUTO) == 0
    (run,) = runs()
    assert iterations(run) == [1, 2, 3]
    before = (run / "status.json").read_bytes()
    assert train(*AUTO) == 0
    assert "the run is complete at 192 frames" in capsys.readouterr().out
    assert runs() == [run]
    assert (run / "status.json").read_bytes() == before


def test_another_command_is_another_run(here):
    assert train(*AUTO, "seed=5") == 0
    assert [iterations(run) for run in runs()] == [[1, 2], [1, 2, 3]]


def test_further_than_before_is_the_same_run_where_it_is_named(here):
    (run,) = runs()
    assert train(*TINY, "resume=auto", "total_frames=256", f"hydra.run.dir={run}") == 0
    assert iterations(run) == [1, 2, 3, 4]


def test_rows_after_the_checkpoint_and_a_torn_one_are_dropped(here):
    (run,) = runs()
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"iteration": 3, "frames": 192, "return": 9}\n{"iteration": 4, "fra')
    assert train(*AUTO) == 0
    assert iterations(run) == [1, 2, 3]
    assert all("return" not in row for row in read_metrics(run / "metrics.jsonl"))


def test_a_run_that_was_killed_before_its_first_save_begins_again(here):
    (run,) = runs()
    shutil.rmtree(run / "checkpoints")
    assert train(*AUTO) == 0
    assert iterations(run) == [1, 2, 3]
    assert json.loads((run / "resumes.jsonl").read_text().splitlines()[-1])["from"] == "nothing"


def test_a_run_of_which_everything_is_damaged_is_not_begun_again(here, capsys):
    (run,) = runs()
    for path in run.glob("checkpoints/step_*"):
        path.write_bytes(path.read_bytes()[:-1])
    with pytest.warns(RuntimeWarning, match="skipped"):
        assert train(*AUTO) == 2
    assert "no intact checkpoint" in capsys.readouterr().err
    assert iterations(run) == [1, 2]


def test_another_number_of_envs_keeps_what_was_learned_and_says_what_it_drops(here, capsys):
    (run,) = runs()
    before = load(find(str(run), here))
    assert train(f"resume={run}", "num_envs=16", "total_frames=384", "console=lines") == 0
    printed = capsys.readouterr().out
    assert "weights, optimiser, counters, curriculum and random numbers are restored" in printed
    assert "are not (num_envs was 8, is 16)" in printed
    rows = list(read_metrics(run / "metrics.jsonl"))
    assert [(row["iteration"], row["frames"]) for row in rows] == [
        *((1, 64), (2, 128)),
        *((3, 256), (4, 384)),
    ]
    after = load(find(str(run), here))
    steps = [state["agent"]["optimizer"]["state"][0]["step"].item() for state in (before, after)]
    assert steps[1] == 2 * steps[0], "Adam has counted on"
    assert after["agent"]["policy_version"] == 4


def test_a_branch_is_another_run(here):
    (run,) = runs()
    older = min(run.glob("checkpoints/step_*"))
    assert train(*TINY, f"resume={older}", "total_frames=192") == 0
    assert [iterations(run) for run in runs()] == [[1, 2], [2, 3]]
    assert train(*AUTO) == 0
    assert [iterations(run) for run in runs()] == [[1, 2, 3], [2, 3]]


def test_of_two_words_for_one_option_the_last_one_counts():
    assert plan.same_run(["seed=1", "seed=2", "resume=auto"], ["console=none", "seed=2"])
    assert not plan.same_run(["seed=1", "seed=2"], ["seed=2", "seed=1"])


def test_overrides_given_last_are_known_and_what_differs_from_it_is_not(tmp_path):
    new = plan.new_overrides
    (tmp_path / "overrides.yaml").write_text('- "agent.optimizer.learning_rate=1"\n- "seed=3"\n')
    words = ["agent.optimizer.learning_rate=1", "seed=3", "rollouts.drop=[episode]"]
    assert new(tmp_path, words) == words[2:]
    later = json.dumps({"overrides": ["agent.optimizer.learning_rate=2"]})
    (tmp_path / "resumes.jsonl").write_text(f'{later}\n{{"overrides": ["agent.le')
    assert new(tmp_path, words) == [words[0], words[2]]
    assert new(tmp_path, ["agent.optimizer.learning_rate=2"]) == []


def test_a_complete_run_that_was_killed_while_it_was_measured_is_measured(here):
    run = here / "measured"
    evaluated = (*AUTO, "eval_opponents=[straight]", "eval_episodes=4", f"hydra.run.dir={run}")
    assert train(*evaluated) == 0
    rows, summary = (
        (run / "metrics.jsonl").read_bytes(),
        json.loads((run / "summary.json").read_text()),
    )
    for content in ('{"state": "running"}', "torn"):
        (run / "status.json").write_text(content)
        (run / "summary.json").write_text("{}")
        assert train(*evaluated) == 0
        assert json.loads((run / "status.json").read_text())["state"] == "finished"
        found = json.loads((run / "summary.json").read_text())
        assert {key: found[key] for key in summary if not key.startswith("time/")} == {
            key: value for key, value in summary.items() if not key.startswith("time/")
        }
        assert "eval/straight/win" in found
        assert (run / "metrics.jsonl").read_bytes() == rows


def test_restarts_go_on_with_an_older_run_only_if_named(here, capsys, monkeypatch):
    folders = []
    monkeypatch.setattr(
        navrl.run.supervisor, "supervise", lambda _, folder, __: folders.append(folder) or 0
    )
    (run,) = runs()
    assert train(*AUTO, "restarts=2") == 0
    assert train(*TINY, "total_frames=192", "restarts=2") == 0
    assert folders[0] == run.absolute()
    assert folders[1] not in (folders[0], None)
    assert train(*TINY, "total_frames=192", "restarts=2", f"hydra.run.dir={run}") == 2
    assert "holds a run already; go on with resume=auto" in capsys.readouterr().err
    assert len(folders) == 2


@pytest.mark.parametrize("words", [("resume=latest",), ("-m", "seed=1,2")])
def test_restarts_need_a_run_of_their_own(here, capsys, words):
    assert train(*words, *TINY, "restarts=2") in (1, 2)
    assert "expected resume=auto and no -m" in capsys.readouterr().err
