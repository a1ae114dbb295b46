"""Requests to a running training: which are taken, once each, and that no link is followed."""

import json
import signal
from pathlib import Path
from unittest import mock

import pytest

import navrl.train
from navrl.commands.runs import main as runs
from navrl.config.checks import ConfigError
from navrl.loggers.composite import Loggers
from navrl.loggers.jsonl import read_metrics
from navrl.run.lock import RunLock
from navrl.run.requests import request, take_requests
from navrl.run.signals import Interrupt
from navrl.storage.checkpoint import load
from navrl.storage.files import UnsafePath
from navrl.storage.info import checkpoint_files
from tests.command_line import command
from tests.halting import untimed_rows


def test_a_request_is_taken_once(tmp_path):
    with RunLock(tmp_path):
        assert take_requests(tmp_path) == set()
        for name in ("stop", "evaluate", "stop"):
            request(tmp_path, name)
        assert take_requests(tmp_path) == {"stop", "evaluate"}
        assert take_requests(tmp_path) == set()


@pytest.mark.parametrize(
    ("state", "reason"),
    [("finished", "it is finished"), ("running", "its process is gone")],
)
def test_a_run_that_does_not_train_is_asked_nothing(tmp_path, state, reason):
    (tmp_path / "status.json").write_text(json.dumps({"state": state}))
    with pytest.raises(ConfigError, match=f"does not train: {reason}; expected a running"):
        request(tmp_path, "stop")
    assert not (tmp_path / "requests").exists()


def test_an_unknown_request_has_a_near_name(tmp_path):
    with RunLock(tmp_path), pytest.raises(ConfigError, match="did you mean 'save'"):
        request(tmp_path, "safe")


def test_no_link_is_followed(tmp_path):
    run, other = tmp_path / "run", tmp_path / "other"
    other.mkdir()
    (other / "stop").touch()
    with RunLock(run):
        (run / "requests").symlink_to(other)
        assert take_requests(run) == set()
        with pytest.raises(UnsafePath):
            request(run, "save")
        (run / "requests").unlink()
        (run / "requests").mkdir()
        (run / "requests" / "save").symlink_to(other / "made")
        with pytest.raises(UnsafePath):
            request(run, "save")
        (run / "requests" / "stop").mkdir()  # is no request, and stays
        assert take_requests(run) == {"save"}  # the link itself
    assert [path.name for path in other.iterdir()] == ["stop"]
    assert (run / "requests" / "stop").is_dir()


def test_a_request_to_stop_is_a_signal_with_a_reason():
    interrupt = Interrupt(lambda: None)
    interrupt.stop("requested")
    interrupt.stop("again")
    assert interrupt.number == signal.SIGTERM
    assert interrupt.reason == "requested"


# ---- a whole training ----

RUN = Path("outputs/run")
TINY = (
    *("experiment=debug", "logger=none", "console=lines", "eval_opponents=[]", "opponent=crank"),
    *("num_envs=8", "total_frames=256", "hydra.run.dir=outputs/run", "env.sim.tick_s=0.25"),
    *("eval_episodes=8", "checkpoint.save_every=100"),
)


def train(asked=(), *words):
    """Run the train command; while an iteration is logged, `asked` names the request for the next one."""
    log = Loggers.log

    def asking(self, metrics, *, iteration, frames):
        log(self, metrics, iteration=iteration, frames=frames)
        for name in dict(asked).get(iteration, ()):
            assert runs([name, str(RUN)]) == 0

    with mock.patch.object(Loggers, "log", asking):
        return command(navrl.train.main, *TINY, *words)


@pytest.mark.commands
def test_a_training_does_what_it_is_asked_and_learns_the_same(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert train({4: ["stop"]}.items()) == 0
    assert "stop requested too late: the last iteration was over" in capsys.readouterr().out
    plain = untimed_rows(RUN)
    RUN.rename("outputs/plain")
    asked = {1: ["evaluate"], 2: ["stop", "save"]}
    assert train(asked.items()) == 128 + signal.SIGTERM
    printed = capsys.readouterr().out
    assert "evaluate requested" in printed
    assert "saved. To go on:" in printed
    status = json.loads((RUN / "status.json").read_text())
    assert (status["state"], status["reason"]) == ("interrupted", "stopped by request")
    assert [load(file)["iteration"] for file in sorted(checkpoint_files(RUN / "checkpoints"))] == [
        *(2, 3)  # the evaluation saves
    ]
    (RUN / "requests" / "stop").touch()  # left over: not for the process that goes on
    assert train((), "resume=auto") == 0
    rows = list(read_metrics(RUN / "metrics.jsonl"))
    assert ["eval/win" in row for row in rows] == [False, True, False, False]
    learned = [{k: v for k, v in row.items() if not k.startswith("eval/")} for row in rows]
    assert [{**row, **was} for row, was in zip(learned, plain, strict=True)] == learned
    assert runs(["stop", str(RUN)]) == 2
    assert "does not train: it is finished" in capsys.readouterr().err
