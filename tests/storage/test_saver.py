"""The saver: names, pointers, retention, failures, and a writer that is killed at any moment."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch

from navrl.storage import container
from navrl.storage import saver as saver_module
from navrl.storage.checkpoint import load
from navrl.storage.find import find
from navrl.storage.header import CorruptFile, TooLarge
from navrl.storage.info import read_info
from navrl.storage.saver import CheckpointSaver, NullSaver, SaveFailed


def saver(directory: Path, **changes: Any) -> CheckpointSaver:
    options = {
        "keep_last": 2,
        "keep_best": 1,
        "save_every": 3,
        "on_error": "stop",
        "compress": False,
    } | changes
    return CheckpointSaver(directory=directory, **options)


def state(value: float) -> dict[str, Any]:
    return {"agent": {"weight": torch.full((3,), value)}, "iteration": int(value)}


def frames_in(directory: Path) -> list[int]:
    return sorted(load(path)["iteration"] for path in directory.glob("step_*.ckpt"))


def pointer(directory: Path, name: str) -> dict[str, str]:
    return json.loads((directory / name).read_text())


def test_a_save_is_loadable_and_pointed_to(tmp_path: Path) -> None:
    path = saver(tmp_path / "run" / "checkpoints").save(state(1), frames=2048, score=None)
    assert path == tmp_path / "run" / "checkpoints" / "step_000000002048.ckpt"
    assert load(path)["agent"]["weight"].tolist() == [1.0, 1.0, 1.0]
    expected = {"file": path.name, "sha256": container.read_digest(path)}
    assert pointer(path.parent, "latest") == expected
    assert sorted(os.listdir(path.parent)) == ["latest", path.name]


def test_the_facts_are_in_the_header(tmp_path: Path) -> None:
    path = saver(tmp_path).save(state(1), frames=2048, score=0.25, stage=3)
    size = path.stat().st_size
    assert read_info(path) == (2048, 3, 0.25, container.read_digest(path))
    os.truncate(path, size - 1)
    with pytest.raises(CorruptFile):
        read_info(path)


def test_the_newest_and_the_best_are_kept(tmp_path: Path) -> None:
    writer = saver(tmp_path, keep_last=2, keep_best=2)
    for step, score in enumerate([5.0, 1.0, 9.0, None, 2.0, 3.0], start=1):
        writer.save(state(step), frames=step, score=score)
    assert frames_in(tmp_path) == [1, 3, 5, 6]  # best: 9 at 3 and 5 at 1; newest: 5 and 6
    assert pointer(tmp_path, "best")["file"] == "step_000000000003.ckpt"
    assert pointer(tmp_path, "latest")["file"] == "step_000000000006.ckpt"


def test_any_score_of_a_later_stage_is_better(tmp_path: Path) -> None:
    # An easy lesson is won by 98 %, the hard one by 40 and 55 %; then the run goes back to the easy one.
    writer = saver(tmp_path, keep_last=1)
    for step, (stage, score) in enumerate(
        [(0, 0.98), (1, 0.4), (1, 0.55), (1, None), (0, 0.99)], 1
    ):
        writer.save(state(step), frames=step, score=score, stage=stage)
    assert frames_in(tmp_path) == [3, 5]
    assert pointer(tmp_path, "best")["file"] == "step_000000000003.ckpt"
    assert find(str(tmp_path / "best"), tmp_path) == tmp_path / "step_000000000003.ckpt"
    again = saver(tmp_path, keep_last=1)
    again.save(state(6), frames=6, score=1.0, stage=0)
    assert frames_in(tmp_path) == [3, 6]


def test_what_best_points_to_is_never_deleted(tmp_path: Path) -> None:
    writer = saver(tmp_path, keep_last=1, keep_best=0)
    for step, score in enumerate([5.0, 1.0, 2.0], start=1):
        writer.save(state(step), frames=step, score=score)
    assert frames_in(tmp_path) == [1, 3]
    assert pointer(tmp_path, "best")["file"] == "step_000000000001.ckpt"


def test_of_equal_scores_the_newer_is_best(tmp_path: Path) -> None:
    writer = saver(tmp_path, keep_last=1)
    for step in (1, 2, 3):
        writer.save(state(step), frames=step, score=4.0)
    assert frames_in(tmp_path) == [3]


@pytest.mark.parametrize("score", [float("nan"), float("inf"), float("-inf")])
def test_a_score_that_is_not_finite_is_no_score(tmp_path: Path, score: float) -> None:
    writer = saver(tmp_path, keep_last=1)
    writer.save(state(1), frames=1, score=-3.0)
    writer.save(state(2), frames=2, score=score)
    assert pointer(tmp_path, "best")["file"] == "step_000000000001.ckpt"
    assert frames_in(tmp_path) == [1, 2]


def test_retention_goes_on_after_a_restart(tmp_path: Path) -> None:
    first = saver(tmp_path)
    first.save(state(1), frames=1, score=8.0)
    first.save(state(2), frames=2, score=1.0)
    second = saver(tmp_path)
    second.save(state(3), frames=3, score=2.0)
    second.save(state(4), frames=4, score=3.0)
    assert frames_in(tmp_path) == [1, 3, 4]
    assert pointer(tmp_path, "best")["file"] == "step_000000000001.ckpt"


def test_damaged_files_never_push_out_intact_ones(tmp_path: Path) -> None:
    saver(tmp_path).save(state(1), frames=1, score=None)
    for frames in (7, 8, 9):
        (tmp_path / f"step_{frames:012d}.ckpt").write_bytes(b"damaged")
    with pytest.warns(RuntimeWarning, match="skipped") as caught:
        writer = saver(tmp_path, keep_last=2)
    assert len(caught) == 3
    writer.save(state(2), frames=2, score=None)
    names = sorted(path.name[-6:-5] for path in tmp_path.glob("step_*"))
    assert names == ["1", "2", "7", "8", "9"]


def test_saving_the_same_frames_again_replaces_the_file(tmp_path: Path) -> None:
    writer = saver(tmp_path)
    writer.save(state(1), frames=1, score=2.0)
    writer.save(state(2), frames=2, score=5.0)
    writer.save(state(3), frames=2, score=1.0)  # the former best is gone with its file
    assert frames_in(tmp_path) == [1, 3]
    assert pointer(tmp_path, "best")["file"] == "step_000000000001.ckpt"


def test_a_file_that_reads_back_wrong_is_not_counted_as_the_one_it_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = saver(tmp_path)
    writer.save(state(1), frames=1, score=1.0)
    writer.save(state(2), frames=2, score=5.0)

    def wrong(path: Path, *_: Any, **__: Any) -> Any:
        raise CorruptFile(path, "header", "the disk lies")

    with monkeypatch.context() as patched:
        patched.setattr(saver_module, "verify", wrong)
        with pytest.raises(SaveFailed, match="the disk lies"):
            writer.save(state(3), frames=2, score=9.0)
    assert frames_in(tmp_path) == [1]
    assert writer.saved_frames == 1
    writer.save(state(4), frames=3, score=0.5)
    assert pointer(tmp_path, "best")["file"] == "step_000000000001.ckpt"


def test_a_save_is_read_back_however_little_memory_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(container, "usable_bytes", lambda: 0)
    path = saver(tmp_path).save(state(1.0), frames=10, score=None)
    with pytest.raises(TooLarge):  # from now on it may be a stranger's
        load(path)
    monkeypatch.undo()
    assert load(path)["agent"]["weight"].tolist() == [1.0, 1.0, 1.0]


def test_temporaries_of_a_killed_writer_are_swept(tmp_path: Path) -> None:
    stale = tmp_path / ".step_000000000001.ckpt.0123456789abcdef.tmp"
    stale.write_bytes(b"half")
    (tmp_path / ".mine.tmp").touch()
    saver(tmp_path)
    assert os.listdir(tmp_path) == [".mine.tmp"]


def test_a_directory_that_cannot_be_written_is_an_os_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        saver(tmp_path / "file" / "checkpoints")
    folder = tmp_path / "folder"
    writer = saver(folder)
    folder.chmod(0o555)
    if os.access(folder, os.W_OK):  # the superuser may write anyway, but not where a file is
        folder.rmdir()
        folder.touch()
    with pytest.raises(OSError, match=r"step_000000000001\.ckpt|folder"):
        writer.save(state(1), frames=1, score=None)


@pytest.mark.parametrize(
    ("option", "value"), [("keep_last", 0), ("keep_best", -1), ("save_every", 0)]
)
def test_options_out_of_range_are_named(tmp_path: Path, option: str, value: int) -> None:
    with pytest.raises(ValueError, match=f"checkpoint.{option} = {value}"):
        saver(tmp_path / "run", **{option: value})
    assert os.listdir(tmp_path) == []


def test_due_counts_iterations_from_one(tmp_path: Path) -> None:
    writer = saver(tmp_path, save_every=3)
    assert [iteration for iteration in range(8) if writer.due(iteration)] == [3, 6]


def test_the_null_saver_touches_nothing(tmp_path: Path) -> None:
    writer = NullSaver(directory=tmp_path / "checkpoints")
    assert not any(writer.due(iteration) for iteration in range(100))
    assert writer.save(state(1), frames=1, score=1.0) is None
    writer.close()
    assert os.listdir(tmp_path) == []
