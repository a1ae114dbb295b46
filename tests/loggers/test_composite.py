"""All loggers as one: none of them ends a run, and losses are reported."""

import json
import logging

import pytest
import torch

from navrl.loggers.composite import Loggers
from navrl.loggers.console import ConsoleLogger
from navrl.loggers.jsonl import JsonlLogger, read_metrics
from navrl.loggers.null import NullLogger


class Memory(NullLogger):
    def __init__(self, *, directory=None, name="", config=None, start=None):
        self.place = (directory, name, config)
        self.rows = []
        self.state = start
        self.closed = 0

    def log(self, metrics, *, iteration, frames):
        self.rows.append((iteration, frames, dict(metrics)))

    def summary(self, metrics):
        self.final = dict(metrics)

    def truncate_after(self, frames):
        self.rows = [row for row in self.rows if row[1] <= frames]

    def state_dict(self):
        return {} if self.state is None else {"id": self.state}

    def load_state_dict(self, state):
        self.state = state["id"]

    def close(self):
        self.closed += 1


class Broken(NullLogger):
    def __init__(self, **_):
        pass

    def log(self, metrics, *, iteration, frames):
        raise RuntimeError(f"no network at {iteration}")

    def state_dict(self):
        raise RuntimeError("no state")

    def close(self):
        raise RuntimeError("no end")


def loggers_of(directory, **mirrors):
    jsonl = JsonlLogger(directory=directory)
    console = ConsoleLogger(total=10, headline={}, style="none")
    return Loggers(jsonl=jsonl, console=console, mirrors=mirrors)


def open_loggers(directory, *mirrors):
    return Loggers.open(
        directory=directory,
        name="combat-ppo",
        config={"seed": 1},
        total=10,
        headline={},
        console="lines",
        mirrors=mirrors,
    )


def test_everything_reaches_every_logger(tmp_path):
    memory = Memory()
    with loggers_of(tmp_path, memory=memory) as loggers:
        loggers.log({"loss/value": torch.tensor(0.5)}, iteration=1, frames=64)
        loggers.log({"loss/value": 1}, iteration=2, frames=128)
        loggers.truncate_after(64)
        loggers.summary({"eval/win": torch.tensor(0.25)})
    assert memory.rows == [(1, 64, {"loss/value": 0.5})]
    assert memory.final == {"eval/win": 0.25}
    assert memory.closed == 1
    row = {"iteration": 1, "frames": 64, "loss/value": 0.5}
    assert list(read_metrics(tmp_path / "metrics.jsonl")) == [row]
    assert json.loads((tmp_path / "summary.json").read_text()) == {"eval/win": 0.25}


def test_a_mirror_that_raises_is_warned_about_once_and_counted_at_the_end(tmp_path, caplog):
    memory = Memory()
    loggers = loggers_of(tmp_path, broken=Broken(), memory=memory)
    for iteration in range(1, 6):
        loggers.log({}, iteration=iteration, frames=iteration)
    assert caplog.messages == [
        "broken failed, the run goes on without it: RuntimeError: no network at 1"
    ]
    loggers.close()
    assert caplog.messages[1:] == [  # 5 rows and the end
        "broken failed 6 times in this run, at last: RuntimeError: no end"
    ]
    assert [row[0] for row in memory.rows] == [1, 2, 3, 4, 5]
    assert len(list(read_metrics(tmp_path / "metrics.jsonl"))) == 5
    assert memory.closed == 1


def test_a_record_that_cannot_be_written_is_reported_loudly_and_again(tmp_path, caplog):
    console = ConsoleLogger(total=10, headline={}, style="none")
    loggers = Loggers(jsonl=Broken(), console=console, mirrors={})
    for iteration in range(1, 9):
        loggers.log({}, iteration=iteration, frames=iteration)
    heads = [message.rpartition("no network at ")[2] for message in caplog.messages]
    assert heads == ["1", "2", "4", "8"]
    assert {record.levelno for record in caplog.records} == {logging.ERROR}
    assert "metrics.jsonl CANNOT BE WRITTEN" in caplog.text


def test_ctrl_c_is_not_an_error_of_a_logger(tmp_path):
    class Interrupted(Broken):
        def log(self, metrics, *, iteration, frames):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        loggers_of(tmp_path, mirror=Interrupted()).log({}, iteration=1, frames=1)


def test_a_metric_cannot_take_the_name_of_the_axis(tmp_path):
    with pytest.raises(ValueError, match=r"\['frames'\] are reserved"):
        loggers_of(tmp_path).log({"frames": 1.0}, iteration=1, frames=1)


def test_states_are_kept_by_name_and_a_broken_one_is_left_out(tmp_path):
    loggers = loggers_of(tmp_path, broken=Broken(), first=Memory(start="abc"), second=Memory())
    state = loggers.state_dict()
    assert state == {"first": {"id": "abc"}}
    first = Memory(start="new")
    loggers_of(tmp_path, first=first, third=Memory()).load_state_dict(state)
    assert first.state == "abc"


def test_a_mirror_that_cannot_start_costs_the_mirror_only(tmp_path, caplog):
    def factory(**place):
        raise RuntimeError("service did not start")

    with open_loggers(tmp_path, factory) as loggers:
        loggers.log({}, iteration=1, frames=64)
    assert caplog.messages == [
        "the logger failed, the run goes on without it: RuntimeError: service did not start"
    ]
    assert len(list(read_metrics(tmp_path / "metrics.jsonl"))) == 1


@pytest.mark.parametrize("error", [ModuleNotFoundError, ValueError, TypeError])
def test_what_the_user_can_put_right_ends_the_start(tmp_path, error):
    def factory(**place):
        raise error("pip install it")

    with pytest.raises(error, match="pip install it"):
        open_loggers(tmp_path, factory)


class Album(NullLogger):
    wants = frozenset({"replay", "best"})

    def __init__(self, **_):
        self.files = []

    def attach(self, kind, path, *, frames):
        self.files.append((kind, path, frames))
        if kind == "best":
            raise OSError("quota")


def test_files_go_to_the_loggers_that_want_them_and_failing_there_ends_nothing(tmp_path, caplog):
    album, other = Album(), Memory()
    loggers = loggers_of(tmp_path, album=album, other=other)
    assert loggers.wants == {"replay", "best"}
    for kind in ("replay", "best", "latest"):
        loggers.attach(kind, tmp_path / kind, frames=64)
    assert album.files == [("replay", tmp_path / "replay", 64), ("best", tmp_path / "best", 64)]
    assert "album failed, the run goes on without it: OSError: quota" in caplog.text
    loggers.close()
