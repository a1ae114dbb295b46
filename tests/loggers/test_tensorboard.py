"""The TensorBoard mirror, read back with TensorBoard's own reader."""

import importlib.util
import io

import numpy as np
import pytest
from PIL import Image

from navrl.loggers import tensorboard as module
from navrl.loggers.tensorboard import TensorBoardLogger


def open_logger(directory):
    return TensorBoardLogger(
        directory=directory, name="run", config=CONFIG, flush_s=10, hparams=True, picture=True
    )


CONFIG = {"seed": 3, "env": {"name": "combat", "team_size": 2}, "agent": {"sizes": [64, 64]}}


def read(directory):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    reader = accumulator.EventAccumulator(str(directory / "tensorboard"))
    reader.Reload()
    return reader


def points(directory, tag):
    return [(event.step, event.value) for event in read(directory).Scalars(tag)]


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


def test_options_and_final_numbers_are_hparams_and_a_picture_is_an_image(tmp_path):
    parsed = pytest.importorskip("tensorboard.plugins.hparams.plugin_data_pb2")
    pixels = np.zeros((5, 7, 3), dtype=np.uint8)
    pixels[2, 3] = (255, 128, 0)
    Image.fromarray(pixels).save(tmp_path / "final.png")
    logger = open_logger(tmp_path)
    assert logger.wants == {"picture"}
    logger.log({"loss/value": 0.5}, iteration=1, frames=64)
    logger.summary({"eval/crank/win": 0.75})
    logger.attach("picture", tmp_path / "final.png", frames=64)
    logger.close()
    found = read(tmp_path)
    (image,) = found.Images("picture")
    assert (image.step, image.height, image.width) == (64, 5, 7)
    drawn = np.asarray(Image.open(io.BytesIO(image.encoded_image_string)))
    assert (drawn == pixels).all()
    assert points(tmp_path, "final/eval/crank/win") == [(64, 0.75)]
    content = found.summary_metadata["_hparams_/session_start_info"].plugin_data.content
    start = parsed.HParamsPluginData.FromString(content).session_start_info
    values = {key: value.number_value or value.string_value for key, value in start.hparams.items()}
    assert values == {
        **{"seed": 3.0, "env.name": "combat", "env.team_size": 2.0},
        "agent.sizes": "[64, 64]",
    }


def test_a_missing_package_is_one_sentence_with_the_line_that_helps(tmp_path, monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(
        module, "find_spec", lambda name: None if name == "tensorboard" else real(name)
    )
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'navrl\[tensorboard\]'$"):
        open_logger(tmp_path)
    assert not list(tmp_path.iterdir())
