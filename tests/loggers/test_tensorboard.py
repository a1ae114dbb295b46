"""The TensorBoard mirror, read back with TensorBoard's own reader."""

import importlib.util

import pytest

from navrl.loggers import tensorboard as module
from navrl.loggers.tensorboard import TensorBoardLogger


def open_logger(directory):
    return TensorBoardLogger(directory=directory, name="run", config={}, flush_s=10)


def points(directory, tag):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    reader = accumulator.EventAccumulator(str(directory / "tensorboard"))
    reader.Reload()
    return [(event.step, event.value) for event in reader.Scalars(tag)]


def test_frames_are_the_axis_and_a_resume_replaces_what_came_after(tmp_path):
    pytest.importorskip("tensorboard")
    first = open_logger(tmp_path)
    for iteration in (1, 2, 3):
        first.log({"loss/value": iteration / 2}, iteration=iteration, frames=iteration * 64)
    first.close()
    second = open_logger(tmp_path)
    second.truncate_after(128)
    second.log({"loss/value": 9.0}, iteration=3, frames=192)
    second.summary({"eval/win": 0.5})
    second.close()
    assert points(tmp_path, "loss/value") == [(64, 0.5), (128, 1.0), (192, 9.0)]
    assert points(tmp_path, "iteration") == [(64, 1.0), (128, 2.0), (192, 3.0)]
    assert [path.name for path in tmp_path.iterdir()] == ["tensorboard"]


def test_a_missing_package_is_one_sentence_with_the_line_that_helps(tmp_path, monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(
        module, "find_spec", lambda name: None if name == "tensorboard" else real(name)
    )
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'navrl\[tensorboard\]'$"):
        open_logger(tmp_path)
    assert not list(tmp_path.iterdir())
