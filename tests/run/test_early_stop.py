"""Early stopping: which scores end a run, and that a whole run ends, goes on and resumes as they say."""

import json
import signal
from pathlib import Path
from unittest import mock

import pytest
from omegaconf import OmegaConf

import navrl.train
from navrl.config.checks import ConfigError
from navrl.loggers.jsonl import read_metrics
from navrl.run.early_stop import stop_reason, stop_when
from navrl.run.evaluation import Evaluations
from tests.command_line import command
from tests.halting import untimed_rows


def config(eval_every=5, **options):
    return OmegaConf.create(
        {"env": {"objective": "win"}, "eval_every": eval_every, "stop_when": options or None}
    )


@pytest.mark.parametrize(
    ("options", "scores", "reason"),
    [
        ({}, [0.0, 1.0], ""),
        ({"at_least": 0.9}, [0.8, 0.9], "eval/win was at least 0.9"),
        ({"at_least": 0.9}, [0.9, 0.8], ""),  # it would have ended before
        ({"at_least": 0.9, "in_a_row": 2}, [0.9, 0.8, 0.95], ""),
        (
            {"at_least": 0.9, "in_a_row": 2},
            [0.8, 0.95, 0.9],
            "eval/win was at least 0.9 in 2 evaluations in a row",
        ),
        ({"at_least": 0.9, "in_a_row": 2}, [0.95], ""),
        ({"no_better_for": 2}, [0.5, 0.4], ""),
        ({"no_better_for": 2}, [0.5, 0.4, 0.5], "eval/win was not above 0.5 for 2 evaluations"),
        ({"no_better_for": 2}, [0.5, 0.4, 0.6, 0.6], ""),
        ({"no_better_for": 2}, [], ""),
        ({"at_least": 0.9, "no_better_for": 1}, [0.5, 0.1], "eval/win was not above 0.5 for 1 "),
    ],
)
def test_scores_end_a_run(options, scores, reason):
    found = stop_reason(config(**options), scores)
    assert found.startswith(reason)
    assert bool(found) == bool(reason)


@pytest.mark.parametrize(
    ("cfg", "sentence"),
    [
        (config(0, at_least=0.9), "at_least = 0.9 with eval_every = 0; .*; add eval_every=20"),
        (config(0, no_better_for=3), "no_better_for = 3 with eval_every = 0"),
        (config(at_least="high"), "stop_when.at_least = high; expected a finite number"),
        (config(no_better_for=0), "stop_when.no_better_for = 0; expected a whole number, 1 or"),
        (config(in_a_row=0.5), "stop_when.in_a_row = 0.5; expected a whole number"),
        (config(level=0.9), "expected null, or at_least, in_a_row, no_better_for"),
        (OmegaConf.merge(config(), {"stop_when": 0.9}), "stop_when = 0.9; expected null"),
    ],
)
def test_wrong_options_are_one_sentence(cfg, sentence):
    with pytest.raises(ConfigError, match=sentence):
        stop_when(cfg)


# ---- whole runs, with evaluations whose results are given ----

RUN = Path("outputs/run")
TINY = (
    *("experiment=debug", "logger=none", "console=lines", "eval_opponents=[]", "opponent=crank"),
    *("num_envs=8", "total_frames=512", "hydra.run.dir=outputs/run", "env.sim.tick_s=0.25"),
    *("eval_every=2", "checkpoint.save_every=1", "env.sim.time_limit_s=10"),
)
SCORES = {2: 0.1, 4: 0.9, 6: 0.95, 8: 0.97}  # by iteration


def train(*words, cut_short=None):
    """Run the train command; evaluations find SCORES, and SIGTERM arrives in one of them."""

    def found(cfg, policy, changes, *, seed):
        if policy.version == cut_short:
            signal.raise_signal(signal.SIGTERM)
        iteration = policy.version or 6  # which was cut short: its weights alone are saved
        return {"eval/win": SCORES[iteration]} if seed == cfg.eval_seed else {}

    with mock.patch("navrl.run.evaluation.measure", found):
        return command(navrl.train.main, *TINY, *words)


def ended():
    """Return the status, without times, and the iterations of the rows."""
    status = json.loads((RUN / "status.json").read_text())
    rows = [row["iteration"] for row in read_metrics(RUN / "metrics.jsonl")]
    return status["state"], status["reason"], status["frames"], rows


@pytest.fixture
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.commands
@pytest.mark.usefixtures("_here")
def test_a_run_ends_early_and_goes_on_only_with_other_options(capsys):
    rule = ("stop_when.at_least=0.9", "stop_when.in_a_row=2")
    reason = "eval/win was at least 0.9 in 2 evaluations in a row"
    assert train(*rule) == 0
    assert ended() == ("finished", reason, 384, [1, 2, 3, 4, 5, 6])
    assert json.loads((RUN / "summary.json").read_text())["stopped_early"] == 1.0
    printed = capsys.readouterr().out
    assert f"the training ends early: {reason}" in printed
    assert "resume=outputs/run stop_when=null" in printed
    assert train(*rule, "resume=auto") == 0  # as of a run that has finished
    assert f"the run has ended early: {reason}" in capsys.readouterr().out
    assert train("resume=latest", "total_frames=1024") == 2
    assert "add stop_when=null" in capsys.readouterr().err
    assert train("resume=latest", "stop_when=null") == 0
    assert ended() == ("finished", "", 512, [1, 2, 3, 4, 5, 6, 7, 8])


@pytest.mark.commands
@pytest.mark.usefixtures("_here")
def test_a_resumed_run_keeps_the_count(capsys):
    rule = ("stop_when.at_least=0.9", "stop_when.in_a_row=3")
    assert train(*rule) == 0
    whole = untimed_rows(RUN)
    assert [row["iteration"] for row in whole][-1] == 8
    RUN.rename("outputs/whole")
    assert train(*rule, cut_short=6) == 128 + signal.SIGTERM
    assert ended()[3] == [1, 2, 3, 4, 5, 6]
    assert train(*rule, "resume=auto") == 0
    assert ended()[:3] == ("finished", "eval/win was at least 0.9 in 3 evaluations in a row", 512)
    merged = {}
    for row in untimed_rows(RUN):  # the evaluation that was cut short has a line of its own
        merged.setdefault(row["iteration"], {}).update(row)
    assert list(merged.values()) == whole


@pytest.mark.commands
@pytest.mark.usefixtures("_here")
def test_evaluations_that_were_requested_do_not_count():
    seen = []

    def scores(self, metrics, iteration):
        note(self, metrics, iteration)
        seen.append(list(self.scores))

    note = Evaluations._note_score
    SCORES.update({1: 1.0, 3: 1.0})
    with (
        mock.patch("navrl.run.records.Records.evaluation_requested", return_value=True),
        mock.patch.object(Evaluations, "_note_score", scores),
    ):
        assert train("total_frames=256", "stop_when.at_least=0.99") == 0
    assert seen == [[], [0.1], [0.1], [0.1, 0.9]]
