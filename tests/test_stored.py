"""navrl rollouts: what it lists is there, what it says is true, and damage is noticed."""

import numpy as np
import pytest
import torch
from tensordict import TensorDict

from navrl import stored
from navrl.rollouts import RolloutStorage, load_rollout


@pytest.fixture
def run(tmp_path):
    """A run with three rollouts of 4 x 3 frames."""
    folder = tmp_path / "run" / "rollouts"
    kept = RolloutStorage(directory=folder, save_every=1, keep_last=None, drop=[], compress=True)
    for iteration in (1, 2, 3):
        values = torch.arange(4 * 3 * 2.0).view(4, 3, 2) * iteration
        halves = {"reward": values[..., :1], "half": values.bfloat16()}
        now = TensorDict({"x": values, "next": TensorDict(halves, [4, 3])}, [4, 3])
        kept.save(now.set_non_tensor("policy_version", iteration), iteration=iteration)
    return folder.parent


def flip(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def test_ls_has_a_line_for_each(run, capsys):
    for where in (run, run / "rollouts"):
        assert stored.main(["ls", str(where)]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) == 1 + 3
        assert all("4 x 3" in line for line in lines[1:])


def test_show_says_what_is_inside(run, capsys):
    path = run / "rollouts" / "rollout_000002.nvrl"
    assert stored.main(["show", str(path)]) == 0
    printed = capsys.readouterr().out
    for words in ("iteration     2", "policy_version  2", "next/reward", "bfloat16", "[4, 3, 1]"):
        assert words in printed


def test_verify_finds_the_damaged_one(run, capsys):
    assert stored.main(["verify", str(run)]) == 0
    assert "3 of 3 intact" in capsys.readouterr().out
    flip(run / "rollouts" / "rollout_000002.nvrl")
    with pytest.raises(SystemExit) as stopped:
        stored.main(["verify", str(run)])
    assert stopped.value.code == 1
    printed = capsys.readouterr().out
    assert "2 of 3 intact" in printed
    assert "rollout_000002.nvrl is damaged: tensor 'next/half', block 0" in printed


def test_export_gives_the_same_numbers_to_numpy(run, tmp_path, capsys):
    path, output = run / "rollouts" / "rollout_000003.nvrl", tmp_path / "x.npz"
    assert stored.main(["export", str(path), "--output", str(output)]) == 0
    assert "3 arrays" in capsys.readouterr().out
    arrays, rollout = np.load(output), load_rollout(path)
    assert set(arrays) == {"x", "next/reward", "next/half"}
    assert (arrays["next/reward"] == rollout["next", "reward"].numpy()).all()
    assert (arrays["next/half"] == rollout["next", "half"].float().numpy()).all()
    assert stored.main(["export", str(path), "--keys", "next/half", "--output", str(output)]) == 0
    assert set(np.load(output)) == {"next/half"}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["export", "FILE", "--output", "x.csv"], "expected a name that ends in .npz"),
        (["export", "FILE", "--keys", "y", "--output", "x.npz"], "no key 'y'; there are x"),
        (["show", "absent"], "No such file"),
        (["ls", "EMPTY"], "has no rollouts; train with rollouts=disk"),
        (["list"], "invalid choice"),
    ],
)
def test_mistakes_get_one_sentence(run, tmp_path, monkeypatch, capsys, words, sentence):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    names = {"FILE": str(run / "rollouts" / "rollout_000001.nvrl"), "EMPTY": "empty"}
    assert stored.main([names.get(word, word) for word in words]) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert error.count("\n") == 1
    assert not (tmp_path / "x.npz").exists()
