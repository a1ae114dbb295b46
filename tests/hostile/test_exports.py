"""Exports of files with hostile names of tensors: every tensor arrives, under a name of its own."""

import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from tensordict import TensorDict
from torch import Tensor

import navrl.commands.checkpoint
import navrl.commands.rollouts
from navrl.storage.checkpoint import load, write_state
from navrl.storage.rollouts import RolloutStorage
from tests.hostile.test_links import TRAPS, links, tree

pytestmark = pytest.mark.hostile

# Keys of one rollout, every one of which once hid or broke another.
KEYS = {
    "a slash": ["a/b", ("a", "b"), ("a", "b/c"), ("a/b/c",), ("a%2Fb",)],
    "arguments of numpy": ["file", "args", "kwds", "allow_pickle", "arr_0", "self", "fid"],
    "names of files": ["x", "x.npy", "x.npy.npy", "x.NPY", "x.npz", ".npy", ("x.npy ", "y.npy")],
    "ways out": ["..", ".", ("g", "..", "..", "etc"), ("", "etc"), "/etc/x", "C:", "\\\\host", "~"],
    "what zip drops": ["a", "a\0", "a\0b", "\0", ("a\\b",), "a:b"],
    "nothing": ["", ("e", ""), ("e", " "), ("f", "", ""), "%", "%00", ("f", "%", "x")],
    "very long": ["x" * 300, "x" * 301, "x" * 70_000, ("y" * 150, "z" * 150), "é" * 150],
    "letters": ["é", "e\u0301", "\u202e", "日本", "\ud800", "\U0001f600", "É"],
}


def saved(folder: Path, tensors: dict) -> Path:
    kept = RolloutStorage(directory=folder, save_every=1, keep_last=1, drop=[], compress=False)
    rollout = TensorDict({}, [2, 3])
    for key, tensor in tensors.items():
        rollout[key] = tensor
    return kept.save(rollout, iteration=1)


def export(path: Path, output: Path, *more: str) -> dict[str, np.ndarray]:
    assert navrl.commands.rollouts.main(["export", str(path), str(output), *more]) == 0
    with np.load(output, allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays}


def numbered(keys: list) -> dict[object, Tensor]:
    return {key: torch.full((2, 3), float(number)) for number, key in enumerate(keys, start=1)}


@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
def test_every_tensor_has_a_name_of_its_own(tmp_path: Path, keys: list) -> None:
    tensors = numbered(keys)
    arrays = export(saved(tmp_path, tensors), tmp_path / "x.npz")
    found = sorted(float(array.mean()) for array in arrays.values())
    assert found == [float(tensor[0, 0]) for tensor in tensors.values()]
    for name in arrays:
        assert name.isascii()
        assert name.isprintable()
        assert 0 < len(name) <= 200
        assert not {"", ".", ".."} & set(name.split("/"))


@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
def test_a_name_chooses_its_tensor(tmp_path: Path, keys: list) -> None:
    path = saved(tmp_path, numbered(keys))
    for name, array in export(path, tmp_path / "all.npz").items():
        chosen = export(path, tmp_path / "one.npz", "--keys", name)
        assert (chosen[name] == array).all()
        assert all(other == name or other.startswith(f"{name}/") for other in chosen)


def test_plain_names_are_those_of_the_keys(tmp_path: Path) -> None:
    keys = [("next", "reward"), ("observation", "lidar-2.raw"), "file", "sum_1"]
    arrays = export(saved(tmp_path, numbered(keys)), tmp_path / "x.npz")
    assert set(arrays) == {"next/reward", "observation/lidar-2.raw", "file", "sum_1"}
    other = saved(tmp_path, numbered(["a/b", ("a", "b"), "100 %", "", "c.npy", ".."]))
    names = set(export(other, tmp_path / "x.npz"))
    assert names == {"a%2Fb", "a/b", "100%20%25", "%", "c%2Enpy", "%2E%2E"}


def test_all_kinds_of_numbers_arrive(tmp_path: Path) -> None:
    kinds = (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32)
    kinds += (torch.int16, torch.int8, torch.uint8, torch.bool)
    tensors = {str(kind): torch.tensor([[0, 1, 1], [1, 0, 1]]).to(kind) for kind in kinds}
    tensors |= {"none": torch.empty(2, 3, 0), "next": torch.ones(2, 3, 1)}
    arrays = export(saved(tmp_path, tensors), tmp_path / "x.npz")
    assert arrays.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert (arrays[name] == tensor.double().numpy()).all()
        assert arrays[name].shape == tensor.shape
        assert (
            name == "torch.bfloat16"
            or str(arrays[name].dtype) == str(tensor.dtype)[6:]
            or name in ("none", "next")
        )


def test_unpacking_the_file_stays_in_its_folder(tmp_path: Path) -> None:
    export(saved(tmp_path / "in", numbered(KEYS["ways out"])), tmp_path / "x.npz")
    with zipfile.ZipFile(tmp_path / "x.npz") as archive:
        for name in archive.namelist():
            place = os.path.normpath(tmp_path / "out" / name)
            assert Path(place).is_relative_to(tmp_path / "out")


@pytest.mark.parametrize("trap", TRAPS)
def test_an_export_replaces_a_link_and_not_what_it_leads_to(tmp_path: Path, trap: str) -> None:
    outside = tmp_path / "outside"
    (outside / "empty").mkdir(parents=True)
    (outside / "notes.txt").write_text("mine")
    path = saved(tmp_path / "run", {"x": torch.ones(2, 3)})
    before = tree(outside)
    links(outside, trap, tmp_path / "x.npz")
    assert set(export(path, tmp_path / "x.npz")) == {"x"}
    assert tree(outside) == before


NAMES = ("a/b", "..", "", "x" * 300, "\x1b[31m", "file", "0", "weight.npy")


def test_an_exported_policy_has_every_weight(tmp_path: Path) -> None:
    weights = {name: torch.full((2,), float(number)) for number, name in enumerate(NAMES)}
    weights |= {f"{name}/nested": tensor + 0.5 for name, tensor in weights.items()}
    rest = {"config": {"name": "x"}, "choices": {}, "frames": 7, "iteration": 1}
    write_state(
        tmp_path / "run.ckpt",
        {"agent": {"policy": weights, "critic": weights}, "rng": 1, **rest},
        frames=7,
        score=None,
    )
    words = ["export", str(tmp_path / "run.ckpt"), str(tmp_path / "policy.ckpt")]
    assert navrl.commands.checkpoint.main(words) == 0
    found = load(tmp_path / "policy.ckpt")
    assert found.keys() == {"agent", *rest}
    assert found["agent"].keys() == {"policy"}
    assert {key: found[key] for key in rest} == rest
    policy = found["agent"]["policy"]
    assert policy.keys() == weights.keys()
    for number, name in enumerate(NAMES):
        assert policy[name].tolist() == [number, number]
        assert policy[f"{name}/nested"].tolist() == [number + 0.5, number + 0.5]


@pytest.mark.parametrize(
    "state",
    [
        {"agent": None},
        {"agent": {}},
        {"agent": {"policy": {}}, "frames": "7"},
        {"agent": [1, 2], "frames": 2.5},
        {},
    ],
)
def test_what_has_no_policy_is_not_exported(tmp_path: Path, capsys, state: dict) -> None:
    whole = {"config": {}, "choices": {}, "frames": 7, "iteration": 1, **state}
    write_state(tmp_path / "x.ckpt", whole, frames=7, score=None)
    words = ["export", str(tmp_path / "x.ckpt"), str(tmp_path / "policy.ckpt")]
    assert navrl.commands.checkpoint.main(words) == 2
    printed = capsys.readouterr().err
    assert printed.startswith("navrl: error: ")
    assert printed.count("\n") == 1
    assert not (tmp_path / "policy.ckpt").exists()
