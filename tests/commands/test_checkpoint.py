"""navrl checkpoint: lists, shows, verifies, exports and compares."""

import pytest
import torch

import navrl.train
from navrl.commands.checkpoint import main
from navrl.evaluate import main as evaluate
from navrl.storage.checkpoint import load
from navrl.storage.compare import differences, differing
from navrl.storage.find import find
from navrl.storage.saver import CheckpointSaver
from tests.command_line import command

TINY = (
    *("experiment=debug", "logger=none", "console=none", "eval_opponents=[]", "opponent=crank"),
    *("num_envs=8", "checkpoint.save_every=1", "total_frames=128", "hydra.run.dir=outputs/run"),
    *("env.sim.tick_s=0.25", "env.sim.time_limit_s=8"),
)


def state(value):
    weights = {"w": torch.tensor([1.0, value]), "b": torch.zeros(3, 2)}
    return {"agent": {"policy": weights}, "frames": 1, "config": {"name": "x", "rate": value}}


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Three checkpoints, the newest of them damaged."""
    monkeypatch.chdir(tmp_path)
    directory = tmp_path / "outputs" / "run" / "checkpoints"
    saver = CheckpointSaver(
        directory=directory, keep_last=9, keep_best=1, save_every=1, on_error="stop", compress=False
    )
    for frames, score in ((1000, 0.5), (2000, 0.25), (3000, None)):
        newest = saver.save(state(float(frames)), frames=frames, score=score, stage=frames // 2000)
    content = bytearray(newest.read_bytes())
    content[-40] ^= 1
    newest.write_bytes(content)
    return directory


def test_ls_is_a_table_of_all(run, capsys):
    assert main(["ls", "run"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows[0] == ["frames", "stage", "score", "size", "state", "file"]
    assert rows[1][:3] == ["-", "-", "-"]
    assert "damaged:" in rows[1]
    assert rows[1][-2:] == ["<-", "latest"]
    assert rows[2][:3] == ["2,000", "2", "0.25"]  # stages count from 1, as in the console
    assert rows[2][-1] == "best"
    assert rows[3][:3] == ["1,000", "1", "0.5"]
    assert "ok" in rows[3]


def test_verify_says_which_are_damaged_by_its_exit_code(run, capsys):
    assert main(["verify", "outputs/run"]) == 1
    verdicts = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert verdicts == ["damaged:", "ok", "ok"]
    assert main(["verify", str(run / "step_000000001000.ckpt")]) == 0
    capsys.readouterr()
    stranger = run / "step_000000004000.ckpt"
    stranger.write_text("hello")
    assert main(["verify", str(stranger)]) == 1
    assert capsys.readouterr().out.startswith("is not a file of navrl; expected")


@pytest.mark.filterwarnings("ignore:checkpoint skipped")
def test_the_names_of_one_checkpoint_and_a_file_that_vanishes(run, capsys, monkeypatch):
    for words, frames in ((["best"], 3), ([str(run / "best")], 1), (["latest"], 3), ([], 3)):
        assert main(["ls", *words]) == 0
        assert len(capsys.readouterr().out.splitlines()) == 1 + frames, words
    (run / "step_000000004000.ckpt").symlink_to("nowhere")
    assert main(["verify", "run"]) == 1
    assert "unreadable: No such file or directory" in capsys.readouterr().out


def test_show_is_the_tree_with_shapes(run, capsys):
    assert main(["show", str(run / "step_000000001000.ckpt")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:5] == [
        "  agent/  2 tensors, 32 B",
        "    policy/  2 tensors, 32 B",
        "      w  float32 2",
        "      b  float32 3 x 2",
    ]
    assert "    rate  1000.0" in lines
    main(["show", str(run / "step_000000001000.ckpt"), "--depth", "1"])
    assert "w  float32" not in capsys.readouterr().out


def test_diff_says_which_leaves_and_by_how_much(run, capsys):
    one, two = (str(run / f"step_00000000{n}000.ckpt") for n in (1, 2))
    assert main(["diff", one, one]) == 0
    assert "hold the same" in capsys.readouterr().out
    assert main(["diff", one, two]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split()[:3] == ["/agent/policy/w", "1e+03", "50.0%"]
    assert lines[2].split()[0] == "/config/rate"
    assert lines[3] == "2 differ"


def test_bits_are_compared_and_not_numbers():
    nan, zero = torch.tensor([float("nan"), 0.0]), torch.tensor([float("nan"), -0.0])
    assert differences({"x": nan}, {"x": nan.clone()}) == []
    (found,) = differing({"x": nan}, {"x": zero})
    assert found.share == 0.5
    assert differences({"x": 1}, {"x": 1.0}) == ["/x"]


def test_what_only_one_of_them_has_is_one_difference():
    branch = {"a": {"w": torch.ones(2), "rest": [1, 2]}, "b": torch.ones(3)}
    for one, two, sides in (
        ({"x": 0, "y": branch}, {"x": 0}, ("4 leaves", "absent")),
        ({"x": 0}, {"x": 0, "y": branch}, ("absent", "4 leaves")),
        ({"x": 0, "y": branch}, {"x": 0, "y": {}}, ("4 leaves", "{}")),
    ):
        (found,) = differing(one, two)
        assert (found.path, found.first, found.second) == ("/y", *sides)
    assert differences({"x": 1, "y": []}, {"x": 1}) == ["/y"]
    assert differences({"x": torch.ones(2)}, {"x": torch.ones(2).double()}) == ["/x"]


@pytest.mark.commands
def test_an_exported_policy_is_small_and_can_be_evaluated(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert command(navrl.train.main, *TINY) == 0
    assert main(["export", "run", "policy.ckpt"]) == 0
    whole = find("run", tmp_path / "outputs")
    assert "policy.ckpt: " in capsys.readouterr().out
    assert (tmp_path / "policy.ckpt").stat().st_size < 0.7 * whole.stat().st_size
    found, expected = load(tmp_path / "policy.ckpt")["agent"], load(whole)["agent"]
    assert found.keys() == {"policy"}
    assert differences(found["policy"], expected["policy"]) == []
    results = []
    for checkpoint in ("policy.ckpt", str(whole)):
        words = (f"checkpoint={checkpoint}", "opponent=crank", "num_episodes=8")
        assert command(evaluate, *words, "output=result.json") == 0
        text = (tmp_path / "result.json").read_text()
        results.append([line for line in text.splitlines() if '"policy"' not in line])
    assert results[0] == results[1]
    assert command(navrl.train.main, "resume=policy.ckpt", "total_frames=512") == 2
    assert "holds no env" in capsys.readouterr().err


def test_an_export_replaces_no_file_of_a_run(run, capsys):
    (run.parent / "config.yaml").write_text("seed: 1\n")
    for path in (run / "step_000000001000.ckpt", run.parent / "config.yaml"):
        before = path.read_bytes()
        assert main(["export", str(run / "step_000000002000.ckpt"), str(path)]) == 2
        assert "is a file of a run" in capsys.readouterr().err
        assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["export"], "the following arguments are required: OUTPUT"),
        (["export", "run", "no/such/folder/x"], "change OUTPUT"),
        (["ls", "outputs"], "holds no checkpoints"),
    ],
)
def test_bad_input_is_one_sentence(run, capsys, words, sentence):
    assert main(words) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("navrl: error: ")
    assert sentence in lines[0]
