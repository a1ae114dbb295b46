"""Find the newest intact checkpoint, compare it with a model, and restore the random numbers."""

import hashlib
import os
import random
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from navrl.run.random_state import rng_state, set_rng_state
from navrl.storage import container
from navrl.storage.checkpoint import load
from navrl.storage.find import ZOO_FOLDER, CheckpointNotFound, find, find_place, is_shipped
from navrl.storage.header import CorruptFile
from navrl.storage.saver import CheckpointSaver
from navrl.storage.schema import CheckpointMismatch, check_fits


def make_saver(directory: Path) -> CheckpointSaver:
    options = {"keep_last": 9, "keep_best": 9, "save_every": 1, "on_error": "stop"}
    return CheckpointSaver(directory=directory, compress=False, **options)


def make_run(outputs: Path, name: str, *scores: float | None, saved_at_s: int = 1000) -> Path:
    """A run whose checkpoints hold their own frames: 1, 2, ..."""
    saver = make_saver(outputs / name / "checkpoints")
    for frames, score in enumerate(scores, start=1):
        path = saver.save({"run": name, "frames": frames}, frames=frames, score=score)
        os.utime(path, (saved_at_s + frames, saved_at_s + frames))
    return outputs / name


def damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


def step(run: Path, frames: int) -> Path:
    return run / "checkpoints" / f"step_{frames:012d}.ckpt"


def test_every_kind_of_reference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(tmp_path / "outputs", "combat-ppo/2026-01-01-aa", 1.0, 7.0, 3.0)
    outputs = tmp_path / "outputs"
    monkeypatch.chdir(tmp_path)
    newest, best = step(run, 3), step(run, 2)
    assert find("latest", outputs) == newest
    assert find("best", outputs) == best
    assert find(str(run), outputs) == newest
    assert find("combat-ppo/2026-01-01-aa", outputs) == newest
    assert find(str(run / "checkpoints"), outputs) == newest
    assert find(str(run / "checkpoints" / "latest"), outputs) == newest
    assert find(str(run / "checkpoints" / "best"), outputs) == best
    assert find(str(step(run, 1)), outputs) == step(run, 1)
    assert find("outputs/combat-ppo/2026-01-01-aa", outputs).samefile(newest)
    assert load(newest) == {"run": "combat-ppo/2026-01-01-aa", "frames": 3}


@pytest.mark.parametrize("kind", ["link", "text"])
def test_latest_follows_the_pointer_to_the_run(tmp_path: Path, kind: str) -> None:
    shown = make_run(tmp_path, "a/one", 1.0, saved_at_s=1000)
    make_run(tmp_path, "a/two", 1.0, saved_at_s=5000)
    if kind == "link":
        (tmp_path / "latest").symlink_to("a/one")
    else:
        (tmp_path / "latest").write_text("a/one\n")
    assert find("latest", tmp_path) == step(shown, 1)


def test_without_a_pointer_the_run_saved_to_last_wins(tmp_path: Path) -> None:
    run = make_run(tmp_path, "a/one", 1.0, saved_at_s=5000)
    make_run(tmp_path, "b/two", 1.0, saved_at_s=1000)
    assert find("latest", tmp_path) == step(run, 1)
    (tmp_path / "latest").symlink_to("gone")
    assert find("latest", tmp_path) == step(run, 1)


def test_a_run_that_never_saved_is_passed_over(tmp_path: Path) -> None:
    run = make_run(tmp_path, "a/one", 1.0)
    make_run(tmp_path, "a/two")
    (tmp_path / "latest").symlink_to("a/two")
    with pytest.warns(RuntimeWarning, match=r"two, the newest run, .* is taken"):
        assert find("latest", tmp_path) == step(run, 1)


def test_damaged_checkpoints_are_skipped_with_one_warning_each(tmp_path: Path) -> None:
    run = make_run(tmp_path, "a/one", 1.0, 2.0, 3.0)
    damage(step(run, 3))
    step(run, 2).write_bytes(b"")
    with pytest.warns(RuntimeWarning, match="skipped") as caught:
        assert find("latest", tmp_path) == step(run, 1)
    assert [str(warning.message).count("step_") for warning in caught] == [1, 1]
    with pytest.warns(RuntimeWarning, match="skipped"):
        assert find("best", tmp_path) == step(run, 1)


def test_a_damaged_file_is_reported_once_however_often_it_is_looked_at(tmp_path: Path) -> None:
    run = make_run(tmp_path, "one", 1.0, 2.0)
    damage(step(run, 2))
    (tmp_path / "link").symlink_to("one")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        assert {find(place, tmp_path).name for place in ("one", "link")} == {step(run, 1).name}
        make_saver(run / "checkpoints")
    assert [str(warning.message).count(str(step(run, 2))) for warning in caught] == [1]


def test_a_run_without_an_intact_checkpoint_falls_back_to_another(tmp_path: Path) -> None:
    older = make_run(tmp_path, "a/older", 1.0, saved_at_s=1000)
    newer = make_run(tmp_path, "a/newer", 1.0, saved_at_s=5000)
    damage(step(newer, 1))
    (tmp_path / "latest").symlink_to("a/newer")
    with pytest.warns(RuntimeWarning) as caught:
        assert find("latest", tmp_path) == step(older, 1)
    _skipped, taken = (str(warning.message) for warning in caught)
    assert f"{newer}, the newest run, has no intact" in taken
    assert str(step(older, 1)) in taken
    with (
        pytest.warns(RuntimeWarning, match="skipped"),
        pytest.raises(CheckpointNotFound, match=r"no intact .*newer.* 1 damaged"),
    ):
        find("a/newer", tmp_path)


def test_a_renamed_checkpoint_is_not_believed(tmp_path: Path) -> None:
    run = make_run(tmp_path, "a/one", 1.0, 2.0)
    step(run, 2).rename(step(run, 9))
    with pytest.warns(RuntimeWarning, match="after 2 frames"):
        assert find("latest", tmp_path) == step(run, 1)


def test_pointer_files_are_never_trusted(tmp_path: Path) -> None:
    run = make_run(tmp_path, "a/one", 1.0, 2.0)
    for name in ("latest", "best"):
        (run / "checkpoints" / name).write_text('{"file": "../../../etc/passwd", "sha256": ""}')
        assert find(str(run / "checkpoints" / name), tmp_path) == step(run, 2)


def test_best_without_scores_says_so(tmp_path: Path) -> None:
    make_run(tmp_path, "a/one", None, None)
    with pytest.raises(CheckpointNotFound, match=r"a/one has a score.*ask for 'latest'"):
        find("best", tmp_path)


@pytest.mark.parametrize("reference", ["", "nowhere", "x\0y", "x" * 5000, "../../nowhere"])
def test_nothing_found_is_one_clear_sentence(tmp_path: Path, reference: str) -> None:
    with pytest.raises(CheckpointNotFound, match="no runs with checkpoints yet") as caught:
        find(reference, tmp_path / "outputs")
    assert "\n" not in str(caught.value)
    with pytest.raises(CheckpointNotFound, match="no run below"):
        find("latest", tmp_path / "outputs")


def test_a_path_that_holds_no_checkpoint_is_one_clear_sentence(tmp_path: Path) -> None:
    make_run(tmp_path, "combat-ppo/2026-01-01-aa", 1.0)
    os.mkfifo(tmp_path / "pipe")
    for reference in ("combat-ppo", "pipe"):
        with pytest.raises(CheckpointNotFound, match=r"no intact checkpoint in .*2026-01-01-aa'"):
            find(reference, tmp_path)


def test_a_misspelt_run_gets_a_suggestion(tmp_path: Path) -> None:
    make_run(tmp_path, "combat-ppo/2026-01-01-aa", 1.0)
    make_run(tmp_path, "swarm-mappo/2026-02-02-bb", 1.0)
    with pytest.raises(CheckpointNotFound, match="did you mean 'combat-ppo/2026-01-01-aa'"):
        find("combat-ppo/2026-01-01-ab", tmp_path)
    with pytest.raises(CheckpointNotFound, match="did you mean 'swarm-mappo/2026-02-02-bb'"):
        find("2026-02-02-b", tmp_path)
    with pytest.raises(CheckpointNotFound, match=f"the newest of 2 runs below {tmp_path}: "):
        find("zzz", tmp_path)


def test_load_refuses_what_is_not_a_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "x.ckpt"
    good = {"kind": "checkpoint", "frames": 1, "score": None, "tree": {"dict": []}}
    container.write(path, {}, good)
    assert load(path) == {}
    wrong = {"kind": "rollout", "frames": "1", "score": 1, "stage": None, "tree": []}
    for change in ({"tree": {}}, *({key: value} for key, value in wrong.items())):
        container.write(path, {}, good | change)
        with pytest.raises(
            CorruptFile, match=r"header|is of kind 'rollout'; expected 'checkpoint'"
        ):
            load(path)
    container.write(
        path, {}, good | {"score": 1e200}
    )  # of which JSON can write more digits than a float has
    content = path.read_bytes()
    header = content[64:].replace(
        b"1e+200", b"1e+999"
    )  # no finite number, and best of all for ever
    path.write_bytes(content[:32] + hashlib.sha256(content[:32] + header).digest() + header)
    with pytest.raises(CorruptFile, match="score a finite float"):
        load(path)
    container.write(path, {"lost": torch.ones(1)}, good)
    with pytest.raises(CorruptFile, match="no place"):
        load(path)


def test_random_numbers_go_on_where_they_were() -> None:
    random.gauss(0, 1)  # leaves the second of a pair of normals behind
    np.random.standard_normal()

    def draw() -> list[object]:
        drawn = [random.gauss(0, 1), random.random(), torch.rand(3).tolist()]
        return [*drawn, np.random.standard_normal(), np.random.random()]

    state = rng_state()
    expected = draw()
    random.seed(5)
    np.random.seed(5)
    torch.manual_seed(5)
    set_rng_state(state)
    assert draw() == expected


def test_misfits_are_named_before_anything_is_copied() -> None:
    expected = {"actor.0.weight": torch.zeros(256, 32), "actor.0.bias": torch.zeros(256)}
    small = {"actor.0.weight": torch.zeros(64, 32), "actor.0.bias": torch.zeros(64)}
    half = {name: tensor.half() for name, tensor in expected.items()}
    cases = [
        (
            small,
            r"^checkpoint does not fit: 'actor.0.weight' has shape \(64, 32\) in x.ckpt and "
            r"\(256, 32\) in the model \(and 1 more\); use the same env and agent options$",
        ),
        (half, "dtype torch.float16 in x.ckpt and torch.float32 in the model"),
        ({}, "'actor.0.weight' is in the model but not in x.ckpt"),
        (expected | {"more": torch.zeros(1)}, "'more' is in x.ckpt but not in the model;"),
    ]
    for found, sentence in cases:
        with pytest.raises(CheckpointMismatch, match=sentence):
            check_fits(expected, found, "x.ckpt")


def test_policies_that_come_with_navrl(tmp_path: Path) -> None:
    assert find("zoo:combat-scripts", tmp_path) == ZOO_FOLDER / "combat-scripts.ckpt"
    assert find_place("zoo:combat-scripts", tmp_path) == ZOO_FOLDER / "combat-scripts.ckpt"
    assert is_shipped("zoo:combat-scripts")
    for name in ("", "combat-script", "../zoo/combat-scripts", "combat-scripts.ckpt"):
        assert not is_shipped(f"zoo:{name}")
        with pytest.raises(
            CheckpointNotFound, match=r"comes with navrl.*available: .*combat-scripts"
        ):
            find(f"zoo:{name}", tmp_path)
    assert not is_shipped("combat-scripts")
