"""`navrl export`: the file that is written acts as the policy does, and its card is true."""

import errno
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import onnxruntime
import pytest
import torch
from torchrl.envs.utils import ExplorationType, set_exploration_type

from navrl import train
from navrl.api.policies import load
from navrl.api.training import evaluate
from navrl.commands.export import main
from navrl.config.checks import ConfigError
from navrl.export.formats import FORMATS
from navrl.export.policies import (
    ACTION,
    DISTRIBUTION,
    TOLERANCE,
)
from navrl.export.policies import exported as exported_graph
from navrl.run.build import build_env
from navrl.run.policies import build_policy, find_policy, measure_policy
from navrl.storage.find import shipped
from tests.command_line import command

SHORT = ("experiment=debug", "total_frames=128", "eval_opponents=[]", "logger=none", "console=none")
FIGHT = (*SHORT, "env.sim.time_limit_s=12")
MEMORY = ("agent.network.rnn=gru", "agent.network.chunk_length=4")
TEAM = ("env.team_size=2", "observation=entities", "agent=mappo")
SKILLS = (
    *("env=alice_and_bob", "agent=hmasd", "experiment=alice_hmasd", "env.sim.horizon=20"),
    *("num_envs=4", "rollout_steps=30", "agent.k=7", "total_frames=120", "compile=off"),
    *("eval_episodes=4", "logger=none", "console=none"),
)
BF16 = "agent.network.precision=bf16"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Runs as the train command leaves them."""
    folder = tmp_path_factory.mktemp("runs")
    for name, words in {"fight": (*FIGHT, *MEMORY, BF16), "skills": SKILLS}.items():
        assert command(train.main, *words, f"hydra.run.dir={folder / name}") == 0
    return folder


def exported(run, folder, *words, to="onnx"):
    """The file of a policy and its card."""
    file = folder / f"policy.{to}"
    words = (f"--to={to}", f"--output={file}", "num_episodes=20", *words)
    assert main([str(run), *words]) == 0
    return file, json.loads((folder / f"policy.{to}.json").read_text())


@pytest.mark.commands
def test_an_onnx_file_flies_as_the_policy_does(runs, tmp_path, capsys):
    file, card = exported(runs / "fight", tmp_path)
    assert "on 1,000 observations the file differs" in capsys.readouterr().out
    assert card["check"]["observations"] == 1000
    assert card["training"]["precision"] == "bf16"
    assert card["training"]["command"].startswith("navrl train experiment=debug")
    session = onnxruntime.InferenceSession(file)
    inside = json.loads(session.get_modelmeta().custom_metadata_map["card"])
    assert inside.items() <= {**card, "sha256": inside["sha256"]}.items()
    assert [port.name for port in session.get_inputs()] == ["ego", "action_mask", "hidden"]
    assert {port.shape[0] for port in session.get_inputs()} == {"batch"}
    setup = find_policy(
        str(runs / "fight"), device="cpu", overrides=["agent.network.precision=fp32"]
    )
    env = build_env(setup.config, num_envs=4, seed=3, compile_mode="off")
    policy, frame = build_policy("", setup.config, setup.state, env), env.reset()
    memory = {"hidden": np.zeros((4, 32), np.float32)}
    for _ in range(30):
        seen = {
            name: frame["observation"].get(name, frame.get(name, None))
            for name in ("ego", "action_mask")
        }
        found = session.run(None, {name: leaf.numpy() for name, leaf in seen.items()} | memory)
        found = dict(zip([port["name"] for port in card["outputs"]], found, strict=True))
        with torch.no_grad(), set_exploration_type(ExplorationType.DETERMINISTIC):
            stepped, frame = env.step_and_maybe_reset(policy(frame))
        np.testing.assert_array_equal(found[ACTION], stepped[ACTION])
        ended = stepped["next", "done"].numpy()
        memory = {"hidden": np.where(ended, np.float32(0.0), found[card["memory"]["hidden"]])}


@pytest.mark.commands
def test_the_score_is_that_of_an_evaluation_in_fp32(runs, tmp_path):
    _, card = exported(runs / "fight", tmp_path)
    measured = measure_policy(
        str(runs / "fight"),
        overrides=["agent.network.precision=fp32"],
        num_episodes=20,
        seed=card["score"]["seed"],
        deterministic=True,
        device="cpu",
        compile_mode="off",
    ).metrics
    assert card["score"]["all"] == {name: each._asdict() for name, each in measured.items()}


@pytest.mark.commands
def test_a_policy_computes_in_the_precision_that_is_asked_for(runs):
    logits = {}
    for precision in ("fp32", "bf16", "own"):
        words = [] if precision == "own" else [f"agent.network.precision={precision}"]
        policy = load(runs / "fight", *words)
        seen = {name: torch.ones(shape) for name, shape in policy.observation.items()}
        frame, _ = policy._frame(seen)
        logits[precision] = policy._module.distribution(frame, deterministic=True).parameters
    assert torch.equal(logits["bf16"], logits["own"])  # as it was trained
    assert 0.0 < (logits["fp32"] - logits["bf16"]).abs().max() < 0.1


@pytest.mark.commands
@pytest.mark.parametrize(
    ("run", "word", "sentence"),
    [
        (
            "fight",
            "agent.discount=0.9",
            "expected options of its world, or agent.network.precision;",
        ),
        ("fight", "agent=mappo", "agent=mappo is for a training, and the policy is trained"),
        (
            "fight",
            "agent.network.precision=bf16",
            "expected fp32, in which every policy is exported",
        ),
        ("skills", "agent.network.precision=fp32", "expected options of its world; leave it out"),
    ],
)
def test_options_of_the_agent_are_not_dropped_silently(runs, capsys, run, word, sentence):
    assert main([str(runs / run), word]) == 2
    assert sentence in capsys.readouterr().err
    if word.endswith("=bf16"):  # of an exported file alone
        return
    for use in (load, evaluate):
        with pytest.raises(ConfigError, match=re.escape(sentence)):
            use(runs / run, word)


_ALONE = """
import json, sys
for name in ("navrl", "tensordict", "torchrl"):
    sys.modules[name] = None  # importing it fails
import torch
from safetensors import safe_open
pt2, safetensors = sys.argv[1:]
files = {"card.json": ""}
program = torch.export.load(pt2, extra_files=files).module()
ports = json.loads(files["card.json"])["inputs"]
torch.manual_seed(0)
inputs = {
    port["name"]: torch.randn(5, *port["shape"][1:]).to(getattr(torch, port["dtype"]))
    for port in ports
}
one = program(inputs)
with safe_open(safetensors, "pt") as file:
    graph = json.loads(file.metadata()["card"])["graph"]
    code = {"torch": torch, "device": torch.device, "inf": float("inf")}
    exec(graph["code"], code)
    taken = [inputs[n] if n in inputs else file.get_tensor(n) for n in graph["arguments"]]
two = dict(zip(graph["outputs"], code["forward"](None, *taken)))
assert one.keys() == two.keys()
for name in one:
    assert torch.equal(one[name], two[name]) or (one[name] - two[name]).abs().max() < 1e-5
print(sorted(one))
"""


@pytest.mark.commands
def test_the_other_formats_need_torch_alone(runs, tmp_path):
    words = [str(exported(runs / "fight", tmp_path, to=to)[0]) for to in ("pt2", "safetensors")]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _ALONE, *words],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "['action', 'distribution', 'next_hidden']"


_WITHOUT_TORCH = """
import runpy, sys
for name in ("torch", "navrl", "tensordict", "torchrl"):
    sys.modules[name] = None  # importing it fails
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0])
"""


@pytest.mark.commands
def test_the_example_flies_an_episode_without_torch(root, tmp_path):
    words = ("experiment=classic", "env=gym", "env.id=CartPole-v1", "total_frames=2048")
    quiet = (
        *MEMORY,
        "compile=off",
        "eval_episodes=2",
        "logger=none",
        "console=none",
        f"hydra.run.dir={tmp_path / 'run'}",
    )
    assert command(train.main, *words, *quiet) == 0
    file, card = exported(tmp_path / "run", tmp_path)
    assert list(card["memory"]) == ["hidden"]
    example = [root / "docs/examples/fly_onnx.py", file, "CartPole-v1"]
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_TORCH, *example],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    policy, env, total = load(tmp_path / "run"), gymnasium.make("CartPole-v1"), 0
    seen, over = env.reset(seed=0)[0], False
    while not over:
        seen, _, fell, late, _ = env.step(policy.act({"features": seen})[0])
        total, over = total + 1, fell or late
    assert done.stdout == f"return {total}\n"


class Doubled(torch.nn.Module):
    """A policy in whose graph an operation is called `view`, as its input is."""

    def forward(self, columns):
        """Return twice the input, in a row."""
        return {ACTION: columns["view"].view(-1, 6) * 2.0}


@pytest.mark.commands
def test_an_input_may_be_called_as_an_operation(tmp_path):
    inputs = {"view": torch.arange(18.0).reshape(3, 2, 3)}
    kind, file = FORMATS["onnx"], tmp_path / "policy.onnx"
    program = exported_graph(Doubled(), inputs)
    file.write_bytes(kind.content(program, {}))
    found = kind.run(file, program, inputs)[ACTION]
    assert found.tolist() == [[2.0 * (6 * row + column) for column in range(6)] for row in range(3)]


@pytest.mark.commands
def test_what_differs_is_not_written(runs, tmp_path, monkeypatch, capsys):
    kind = FORMATS["pt2"]
    run = type(kind).run

    def wrong(self, *arguments):
        found = run(self, *arguments)
        return {**found, DISTRIBUTION: found[DISTRIBUTION] + 3e-5}

    monkeypatch.setattr(type(kind), "run", wrong)
    file = tmp_path / "policy.pt2"
    words = (str(runs / "fight"), "--to=pt2", f"--output={file}", "num_episodes=20")
    assert main(words) == 1
    assert (
        "the exported policy differs from ours by 3e-05 in distribution" in capsys.readouterr().err
    )
    assert [*tmp_path.iterdir()] == []


@pytest.mark.commands
@pytest.mark.parametrize("old", ["old", None])
def test_no_file_is_left_beside_another_card(runs, tmp_path, monkeypatch, capsys, old):
    file, card = tmp_path / "policy.pt2", tmp_path / "policy.pt2.json"
    for path in (file, card) if old else ():
        path.write_text(old)
    replace = os.replace

    def full(source, target):
        if Path(target) == card:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target))
        replace(source, target)

    monkeypatch.setattr("os.replace", full)
    words = (str(runs / "fight"), "--to=pt2", f"--output={file}", "--force", "num_episodes=20")
    assert main(words) == 1
    assert "No space left on device" in capsys.readouterr().err
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == (
        {file.name: old, card.name: old} if old else {}
    )


MATRIX = {
    "discrete": FIGHT,
    "continuous memory": (*FIGHT, "action=continuous", *MEMORY),
    "spacetime": (*FIGHT, "observation=ego_spacetime"),
    "team": (*FIGHT, *TEAM),
    "separate actors": (*FIGHT, *TEAM, "agent.team.share_actor=false", "agent.team.agent_id=true"),
    "coverage": (*SHORT, "env=coverage", "agent=ippo", "env.sim.horizon=20"),
    "skills": SKILLS,
    "navigation": (*SHORT, "env=navigation", "agent=ppo_navigation"),
    "convolution": (*SHORT, "env=navigation", "agent.network.lidar_encoder=cnn_circular"),
    "published": (*SHORT, "env=navigation_compat", "agent=ppo_navrl"),
    "gym": (*SHORT, "env=gym", "env.id=Pendulum-v1"),
    "vmas": (*SHORT, "env=vmas", "agent=ippo"),
}


@pytest.mark.slow
@pytest.mark.parametrize("words", MATRIX.values(), ids=MATRIX)
def test_every_policy_leaves_in_every_format(words, tmp_path):
    assert command(train.main, *words, f"hydra.run.dir={tmp_path / 'run'}") == 0
    for to in FORMATS:
        file, card = exported(tmp_path / "run", tmp_path, to=to)
        assert file.stat().st_size > 0
        assert max(card["check"]["largest_difference"].values()) <= TOLERANCE
    if "hmasd" not in str(words):
        exported(tmp_path / "run", tmp_path, "--sampled", "--force")


@pytest.mark.slow
@pytest.mark.parametrize("name", shipped())
def test_every_policy_that_comes_along_leaves_in_every_format(name, tmp_path):
    for to in FORMATS:
        _, card = exported(f"zoo:{name}", tmp_path, to=to)
        assert card["licence"] == "MIT"
        assert card["training"]["command"].startswith("navrl train ")


# ---- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ("--to=onxx",),
            "--to = onxx; expected one of onnx, pt2, safetensors; did you mean 'onnx'",
        ),
        (("scripted:crank",), "'scripted:crank' is scripted and reads the simulator's state"),
        (("--output=policy.bin",), "expected a name that ends in .onnx; change --output"),
        (("--output=no/policy.onnx",), "expected a file in an existing folder"),
        (
            ("--output=there.onnx",),
            "there.onnx exists; expected a new name; change --output, or add",
        ),
        (("num_episodes=1",), "num_episodes = 1; expected a whole number, 2 or more"),
        (("nothing",), "no run, checkpoints directory or file is called 'nothing'"),
    ],
)
def test_what_cannot_be_exported_is_refused_in_one_sentence(
    words, sentence, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there.onnx").write_text("old")
    assert main(words) == 2
    assert sentence in capsys.readouterr().err
    assert [file.read_text() for file in tmp_path.iterdir()] == ["old"]


def test_a_missing_package_is_named_with_its_extra(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    assert main([]) == 1
    needed = "--to onnx needs onnxscript, which is not installed; pip install 'navrl[export]'"
    assert needed in capsys.readouterr().err


def test_a_folder_without_permission_is_refused(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os.access", lambda *_: False)  # root may write everywhere
    assert main([]) == 2
    assert "expected a folder in which this user may write" in capsys.readouterr().err
