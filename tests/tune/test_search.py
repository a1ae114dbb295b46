"""A search: who gets which trial, what is given again, what pruning sees, what is found in the end."""

import math

import pytest

from navrl.config.checks import ConfigError
from navrl.config.compose import compose, compose_all
from navrl.run.lock import RunLock
from navrl.tune import training, worker
from navrl.tune.plan import plan_search, require_same, words_of_command
from navrl.tune.report import frames_share, page_data, recommended, write_results
from navrl.tune.search import Search
from navrl.tune.training import TrainingFailed, final_score, read_progress
from tests.tune.studies import FRAMES, plan, write_training

RATE = "agent.optimizer.learning_rate"


def trained(monkeypatch, score_of):
    """Let trainings end at once, with a score that is a function of the seed's folder and the options."""

    def train(_plan, words, folder, watch):
        values = dict(word.split("=") for word in words)
        score = score_of(float(values[RATE]), int(values["seed"]))
        if isinstance(score, Exception):
            raise score
        for iterations in (3, 6, 10):
            write_training(folder, score, iterations=iterations)
            if iterations < 10 and watch():
                return False
        return True

    monkeypatch.setattr(worker, "train", train)


def end(search, trial, score, cpu_s=1.0):
    search.end(trial, "complete", scores=[score], cpu_s=cpu_s, frames=FRAMES)
    trial.lock.release()


def test_the_defaults_are_the_first_trial_and_no_trial_is_too_many(tmp_path):
    made = plan(tmp_path / "a", trials=2)
    one, other = Search(made), Search(made)
    first = one.next()
    assert first.params == made.space.defaults
    second = other.next()
    assert second.params != first.params
    assert one.next() is None, "two of two are under way"
    end(one, first, 0.5)
    assert one.next() is None
    end(other, second, 0.4)
    assert (one.ended(), other.ended()) == (2, 2)
    assert one.next() is None


def test_the_trial_of_a_killed_worker_is_given_again_in_its_folder(tmp_path):
    made = plan(tmp_path / "a", trials=1)
    killed, other = Search(made), Search(made)
    lost = killed.next()
    assert other.next() is None, "it is not lost while its worker lives"
    lost.lock.release()  # as the system does for a process that is killed
    again = other.next()
    assert (again.params, again.folder) == (lost.params, lost.folder)
    assert again.number != lost.number
    again.lock.release()
    third = Search(made).next()
    assert (third.params, third.folder) == (lost.params, lost.folder)
    end(other, third, 0.5)
    assert [(each.state, each.score) for each in other.found()] == [("complete", 0.5)]
    assert other.ended() == 1


def test_a_trial_that_kills_every_worker_ends_as_failed(tmp_path, monkeypatch):
    monkeypatch.setattr("navrl.tune.search._MOST_TIMES", 2)
    search = Search(plan(tmp_path / "a", trials=1))
    for _ in range(3):
        search.next().lock.release()
    assert search.next() is None
    (found,) = search.found()
    assert (found.state, found.fault) == ("failed", "its workers were killed")


def test_ctrl_c_gives_the_trial_back_at_once(tmp_path, monkeypatch):
    made = plan(tmp_path / "a", trials=1)

    def stopped(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(worker, "train", stopped)
    with pytest.raises(KeyboardInterrupt):
        worker.work(made, Search(made))
    assert [each.state for each in Search(made).found()] == ["waiting"]


def test_several_seeds_are_averaged(tmp_path, monkeypatch, capsys):
    made = plan(tmp_path / "a", trials=1, seeds=3)
    trained(monkeypatch, lambda rate, seed: 0.2 + 0.2 * seed)
    search = Search(made)
    worker.work(made, search)
    (found,) = search.found()
    assert found.scores == pytest.approx((0.2, 0.4, 0.6))
    assert found.score == pytest.approx(0.4)
    assert found.frames == 3 * FRAMES
    assert found.cpu_s == pytest.approx(3 * 10 * 2.0), "compiling, 90 s, is not in it"
    # In the sixth tenth of the third training: the mean over the trainings so far, of 0.6 of each.
    assert found.values[26] == pytest.approx(0.6 * 0.4)
    assert {1, 11, 21}.isdisjoint(found.values), "the first tenth is silent"
    line = "1/1 | trial 0 win 0.400 | best 0.400 of trial 0 | agent.optimizer.learning_rate=0.0005 "
    assert f"{line}agent.num_epochs=4\n" in capsys.readouterr().out


def test_median_pruning_ends_what_is_behind(tmp_path, monkeypatch):
    made = plan(tmp_path / "a", trials=6, pruner="median")
    scores = iter([0.5, 0.6, 0.7, 0.8, 0.1, 0.9])
    trained(monkeypatch, lambda rate, seed: next(scores))
    search = Search(made)
    worker.work(made, search)
    found = search.found()
    assert [each.state for each in found] == [*["complete"] * 4, "pruned", "complete"]
    assert found[4].frames == 300
    assert found[4].score == pytest.approx(0.1 * 0.2), "the first value decides"
    assert frames_share(made, found) == pytest.approx((5 * FRAMES + 300) / (6 * FRAMES))


def test_a_failure_costs_one_trial_unless_nothing_works(tmp_path, monkeypatch):
    made = plan(tmp_path / "a", trials=3)
    outcomes = iter([0.5, TrainingFailed("numbers overflowed"), 0.6])
    trained(monkeypatch, lambda rate, seed: next(outcomes))
    search = Search(made)
    worker.work(made, search)
    assert [each.state for each in search.found()] == ["complete", "failed", "complete"]
    assert search.found()[1].fault == "numbers overflowed"
    trained(monkeypatch, lambda rate, seed: TrainingFailed("no such map"))
    other = plan(tmp_path / "b")
    with pytest.raises(
        ConfigError, match="trial 0 failed, and none has succeeded yet: no such map"
    ):
        worker.work(other, Search(other))


def test_two_goals_have_a_front(tmp_path):
    made = plan(tmp_path / "a", trials=4, cost=True)
    search = Search(made)
    for score, cpu_s in ((0.90, 100.0), (0.89, 40.0), (0.80, 50.0), (0.30, 10.0)):
        end(search, search.next(), score, cpu_s)
    assert sorted(search.front()) == [0, 1, 3], "trial 2 is worse and slower than trial 1"
    best = recommended(made, search.found(), search.front())
    assert best.number == 1, "0.89 is within 2 % of 0.90, and the cheapest of those"


def test_progress_is_read_from_metrics(tmp_path):
    made = plan(tmp_path / "a")
    folder = tmp_path / "run"
    assert read_progress(made, folder) == (0, 0.0, {})
    write_training(folder, 1.0, iterations=3)
    frames, cpu_s, values = read_progress(made, folder)
    assert (frames, cpu_s) == (300, 3 * 2.0)
    assert values == pytest.approx({2: 0.2, 3: 0.3})
    row = '{"iteration": 4, "frames": 350, "episode/win": 1.0, "episode/count": 15.0}\n'
    with (folder / "metrics.jsonl").open("a") as file:
        file.write(row)
    assert read_progress(made, folder)[2] == pytest.approx({2: 0.2, 3: 0.3}), "unfinished tenth"
    with (folder / "metrics.jsonl").open("a") as file:
        file.write(row.replace("350", "400").replace("1.0", "0.2").replace("15.0", "5.0"))
    assert read_progress(made, folder)[2][4] == pytest.approx((15 * 1.0 + 5 * 0.2) / 20)


def test_the_score_is_what_train_returns(tmp_path):
    made = plan(tmp_path / "a")
    write_training(tmp_path / "run", 0.5)
    assert final_score(made, tmp_path / "run") == pytest.approx(0.5), "the mean over opponents"
    (tmp_path / "run" / "summary.json").write_text('{"episode/win": 0.25, "eval/win": 0.75}')
    assert final_score(made, tmp_path / "run") == 0.25
    (tmp_path / "run" / "summary.json").write_text("{}")
    assert math.isnan(final_score(made, tmp_path / "run"))


def test_the_preset_is_the_printed_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    typed = ["env=combat", "agent=ppo", "experiment=demo", "opponent=crank", "reward=shaped"]
    made = plan(tmp_path / "a-b", trials=1, overrides=[*typed, "num_envs=64", "agent.num_epochs=9"])
    search = Search(made)
    end(search, search.next(), 0.5)
    text = write_results(made, search)
    assert (
        "best: trial 0, win 0.500, defaults 0.500: nothing was found better than the defaults"
        in text
    )
    command = next(line for line in text.splitlines() if line.startswith("  navrl train env="))
    preset = tmp_path / "a-b/conf/experiment/tuned-a-b.yaml"
    assert "navrl train --config-dir a-b/conf experiment=tuned-a-b" in preset.read_text()
    place = f"hydra.searchpath=['file://{preset.parents[1]}']"
    by_preset = compose_all("train", [place, "experiment=tuned-a-b"])
    by_words = compose("train", command.split()[2:])
    assert {key: by_preset[key] for key in by_words} == dict(by_words)
    assert by_preset.agent.num_epochs == 4
    assert "num_epochs=9" not in command, "the trial chose another number"
    assert by_preset.total_frames == 8_000_000


def test_the_page_holds_every_trial(tmp_path):
    made = plan(tmp_path / "a", trials=2)
    search = Search(made)
    end(search, search.next(), 0.5)
    end(search, search.next(), 0.75)
    data = page_data(made, search.found(), search.front(), {}, None)
    assert [row["score"] for row in data["trials"]] == [0.5, 0.75]
    assert data["trials"][0]["params"] == {RATE: "0.0005", "agent.num_epochs": "4"}
    assert [each["name"] for each in data["dimensions"]] == [RATE, "agent.num_epochs"]


def test_a_folder_holds_one_study(tmp_path):
    made = plan(tmp_path / "a")
    Search(made)
    require_same(plan(tmp_path / "a", trials=99))
    with pytest.raises(
        ConfigError, match=r"holds a study with pruner = none, this command has median"
    ):
        require_same(plan(tmp_path / "a", pruner="median"))


def test_passwords_stay_out_of_files_and_errors(tmp_path):
    made = plan(tmp_path / "a", storage="nonsense://me:secret@host/studies")
    with pytest.raises(
        ConfigError, match="the storage nonsense://host/studies does not work"
    ) as info:
        Search(made)
    assert "secret" not in str(info.value)
    assert not (tmp_path / "a" / "study.json").exists()


def test_a_database_works_as_the_file_does(tmp_path):
    made = plan(tmp_path / "a", trials=1, storage=f"sqlite:///{tmp_path}/study.db")
    end(Search(made), Search(made).next(), 0.5)
    assert Search(made).ended() == 1


def test_the_command_goes_on_with_the_same_search(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = plan(tmp_path / "a", study="mine", trials=5, seeds=2, pruner="hyperband").options
    assert words_of_command(options, workers=2) == [
        *("navrl", "tune", "study=mine", "env=combat", "agent=ppo", "--trials", "5"),
        *("--workers", "2", "--seeds", "2", "--pruner", "hyperband"),
    ]
    planned = plan_search(options._replace(overrides=[*options.overrides, "total_frames=100000"]))
    assert planned.total_frames == 4 * 1024 * 32, "whole iterations"
    assert (planned.seeds, planned.metric, planned.steps) == ((0, 1), "episode/win", 20)


def test_a_folder_that_is_in_use_is_waited_for(tmp_path, monkeypatch):
    """The training of a killed worker saves before it ends."""
    held, waited = RunLock(tmp_path / "run"), []

    def sleep(seconds):
        waited.append(seconds)
        held.release()

    monkeypatch.setattr(training.time, "sleep", sleep)
    training._wait_for(tmp_path / "run")
    assert len(waited) == 1
