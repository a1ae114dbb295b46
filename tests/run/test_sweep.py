"""Sweeps: which jobs there are, where each one is and how far it has come, and which words a file decides."""

import itertools
import json

import pytest

from navrl.config.checks import ConfigError
from navrl.run.lock import RunLock
from navrl.run.sweep import job_words, read_sweep
from tests.runs import write_run

BASIC = "hydra._internal.core_plugins.basic_sweeper.BasicSweeper"
WORDS = ("env=alice_and_bob", "seed=1,2,3")


def write_sweep(folder, *words, params=None, launcher=(), command="train", sweeper=BASIC):
    """The folder of a sweep as Hydra leaves it before the first job."""
    hydra = {
        "overrides": {"hydra": ["hydra.mode=MULTIRUN", *launcher], "task": list(words)},
        "job": {"config_name": command},
        "sweeper": {"_target_": sweeper, "params": params},
    }
    folder.mkdir(parents=True)
    (folder / "multirun.yaml").write_text(json.dumps({"hydra": hydra}))  # JSON is YAML
    return folder


def write_job(folder, *words, state="finished", **status):
    write_run(folder, iterations=2)
    (folder / "overrides.yaml").write_text("".join(f"- {json.dumps(word)}\n" for word in words))
    (folder / "status.json").write_text(json.dumps({"state": state, "frames": 64, **status}))


def words_of(sweep, *typed):
    return list(job_words(sweep, sweep.missing, typed))


def test_jobs_are_all_combinations_in_the_order_of_hydra(tmp_path):
    words = ("agent=ippo,mappo", "num_envs=8", "seed=range(0,3)", "restarts=0")
    jobs = read_sweep(write_sweep(tmp_path / "s", *words)).jobs
    expected = [
        [f"agent={agent}", "num_envs=8", f"seed={seed}"]
        for agent, seed in itertools.product(("ippo", "mappo"), range(3))
    ]
    assert [job.words for job in jobs] == expected
    assert [job.folder.name for job in jobs] == list("012345")


def test_parameters_of_the_sweeper_come_before_the_command_line(tmp_path):
    folder = write_sweep(tmp_path / "s", "sweep=seeds", params={"seed": "0,1", "num_envs": "8,16"})
    sweep = read_sweep(folder)
    assert [job.words for job in sweep.jobs][1] == ["seed=0", "num_envs=16", "sweep=seeds"]
    assert sweep.values_of(sweep.jobs[1]) == ["seed=0", "num_envs=16"]


def test_states_are_those_of_the_runs_and_of_their_locks(tmp_path):
    states = ("finished", "running", "running", "interrupted", "failed", "running")
    folder = write_sweep(tmp_path / "s", f"seed=range({len(states)})", "env=combat")
    for number, state in enumerate(states[:-1]):
        write_job(folder / str(number), "env=combat", f"seed={number}", state=state, reason="why")
    (folder / "5").mkdir()  # Hydra has made it, the run has not begun
    (folder / "4" / "status.json").write_text("torn")
    with RunLock(folder / "2"):
        sweep = read_sweep(folder)
    found = [(job.state, job.reason, job.frames) for job in sweep.jobs]
    assert found == [
        ("finished", "", 64),
        ("killed", "", 64),
        ("running", "", 64),
        ("interrupted", "why", 64),
        ("killed", "", 0),
        ("never started", "", 0),
    ]
    assert [job.number for job in sweep.missing] == [1, 2, 3, 4, 5]


def test_runs_elsewhere_in_the_sweep_are_found_by_their_values(tmp_path):
    folder = write_sweep(tmp_path / "s", "seed=4,5,6", "num_envs=8")
    write_job(folder / "seed=6", "seed=6", "num_envs=8", "device=cpu", "resume=auto")
    write_job(folder / "0", "seed=5", "num_envs=8")
    write_job(folder / "2", "seed=99", "num_envs=8")  # no job of this sweep
    jobs = read_sweep(folder).jobs
    assert [(job.folder.name, job.state) for job in jobs] == [
        ("1", "never started"),
        ("0", "finished"),
        ("seed=6", "finished"),
    ]


def test_equal_jobs_have_a_run_each(tmp_path):
    folder = write_sweep(tmp_path / "s", "seed=4,4")
    write_job(folder / "1", "seed=4")
    assert [job.state for job in read_sweep(folder).jobs] == ["never started", "finished"]


def test_words_of_jobs_go_on_or_begin_and_the_command_line_comes_last(tmp_path):
    folder = write_sweep(tmp_path / "s", "num_envs=8", "resume=auto", "collector=stepwise", *WORDS)
    write_job(folder / "1", "num_envs=8", "env=alice_and_bob", "seed=2")
    words = words_of(read_sweep(folder), "device=cpu", "num_envs=16")
    assert words == [
        ["collector=stepwise", WORDS[0], f"seed={n}", "device=cpu", "num_envs=16", "resume=auto"]
        for n in (1, 3)
    ]


@pytest.mark.parametrize(
    ("word", "repeated"),
    [
        ("plugins=[torchrl]", "plugins=[]"),
        ("hydra.searchpath=[file:///tmp/x]", None),
        ("logger.mode=online", "logger.mode=offline"),
        ("init=/home/me/model.ckpt", "init=null"),
        ("rollouts.directory=/tmp/x", None),
        ("experiment=../x", "experiment=debug"),
        ("curriculum/lesson@x=y", None),
        ("seed=${oc.env:HOME}", "seed=1"),
    ],
)
def test_a_file_decides_neither_what_runs_nor_where_it_writes(tmp_path, word, repeated):
    sweep = read_sweep(write_sweep(tmp_path / "s", "num_envs=8,16", word))
    with pytest.raises(ConfigError, match="expected it to be repeated on the command line"):
        words_of(sweep)
    if repeated:
        assert len(words_of(sweep, repeated)) == 2


def test_a_file_that_a_job_would_read_must_be_named_again(tmp_path):
    other = tmp_path / "model.ckpt"
    words = ("env=combat", "opponent=checkpoint", f"opponent.checkpoint={other}")
    sweep = read_sweep(write_sweep(tmp_path / "s", *words, "seed=1,2"))
    with pytest.raises(ConfigError, match=r"would read opponent\.checkpoint"):
        words_of(sweep)
    assert len(words_of(sweep, words[-1])) == 2


def test_harmless_choices_need_no_repetition(tmp_path):
    words = ("logger=none,tensorboard", "checkpoint.save_every=3", "experiment=debug")
    assert len(words_of(read_sweep(write_sweep(tmp_path / "s", *words)))) == 2


@pytest.mark.parametrize(
    ("words", "options", "sentence"),
    [
        (["seed=range(0,1000000000)"], {}, "more than 10,000 jobs"),
        (["seed=shuffle(range(0,1000000000))"], {}, "more than 10,000 jobs"),
        ([f"{key}=range(0,30)" for key in ("a", "b", "c")], {}, "more than 10,000 jobs"),
        (["agent=glob(*)"], {}, "values that are in no list"),
        (["seed=interval(0,1)"], {}, "values that are in no list"),
        (["seed=1,,"], {}, r"multirun\.yaml: "),
        (["seed=1,2"], {"command": "evaluate"}, "expected a sweep of navrl train"),
        (["seed=1,2"], {"sweeper": "x.OptunaSweeper"}, "OptunaSweeper, which chose each job"),
        ([3], {}, "is no record of a sweep"),
    ],
)
def test_what_is_no_sweep_is_one_sentence(tmp_path, words, options, sentence):
    folder = write_sweep(tmp_path / "s", *words, **options)
    with pytest.raises(ConfigError, match=sentence):
        read_sweep(folder)


def test_a_swept_key_cannot_have_one_value(tmp_path):
    sweep = read_sweep(write_sweep(tmp_path / "s", *WORDS))
    with pytest.raises(ConfigError, match="seed=7 would make the jobs of the sweep alike"):
        words_of(sweep, "seed=7")
