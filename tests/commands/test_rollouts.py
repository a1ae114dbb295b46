"""navrl rollouts: what it lists is there, what it says is true, and damage is noticed."""

import numpy as np
import pytest
import torch
from tensordict import TensorDict

from navrl.commands import rollouts as stored
from navrl.storage import container
from navrl.storage.rollouts import RolloutStorage, load_rollout


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
    assert stored.main(["verify", str(run)]) == 1
    printed = capsys.readouterr().out
    assert "2 of 3 intact" in printed
    assert "rollout_000002.nvrl is damaged: tensor 'next/half', block 0" in printed


def test_export_gives_the_same_numbers_to_numpy(run, tmp_path, capsys):
    path, output = run / "rollouts" / "rollout_000003.nvrl", tmp_path / "x.npz"
    assert stored.main(["export", str(path), str(output)]) == 0
    assert "3 arrays" in capsys.readouterr().out
    arrays, rollout = np.load(output), load_rollout(path)
    assert set(arrays) == {"x", "next/reward", "next/half"}
    assert (arrays["next/reward"] == rollout["next", "reward"].numpy()).all()
    assert (arrays["next/half"] == rollout["next", "half"].float().numpy()).all()
    assert stored.main(["export", str(path), str(output), "--keys", "next/half"]) == 0
    assert set(np.load(output)) == {"next/half"}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["export", "FILE", "x.csv"], "expected a name that ends in .npz"),
        (["export", "FILE", "x.npz", "--keys", "y"], "no key 'y'; there are x"),
        (["show", "absent"], "is called 'absent'"),
        (["ls", "EMPTY"], "empty holds no rollouts; expected a run"),
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


def test_a_run_is_named_as_for_checkpoints(run, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "outputs").mkdir()
    run.rename(tmp_path / "outputs" / "run")
    (tmp_path / "outputs" / "latest").write_text("run\n")  # where links cannot be made
    for words in ([], ["latest"], ["run"], ["outputs/run"], ["outputs/run/rollouts"]):
        assert stored.main(["ls", *words]) == 0
        assert len(capsys.readouterr().out.splitlines()) == 1 + 3
    assert stored.main(["show"]) == 0
    assert "iteration     3" in capsys.readouterr().out
    assert stored.main(["export", "x.npz"]) == 0


def test_names_from_a_file_do_not_reach_the_terminal_as_they_are(tmp_path, capsys):
    names = {"red \x1b[31m": torch.ones(2, 2), "half \ud800": torch.ones(2, 2)}
    kept = RolloutStorage(directory=tmp_path, save_every=1, keep_last=1, drop=[], compress=True)
    kept.save(TensorDict(names, [2, 2]), iteration=1)
    assert stored.main(["show", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "red \\x1b[31m " in printed
    assert "half \\ud800 " in printed
    assert "\x1b" not in printed


def test_what_is_no_rollout_is_one_line(tmp_path, capsys):
    path = tmp_path / "x.nvrl"
    container.write(path, {}, {"batch_size": 5, "values": [[7]]})
    assert stored.main(["ls", str(path)]) == 0
    assert "x.nvrl is of kind None; expected 'rollout'" in capsys.readouterr().out
    assert stored.main(["show", str(path)]) == 2
    assert "x.nvrl is of kind None; expected 'rollout'" in capsys.readouterr().err
