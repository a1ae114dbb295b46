"""Exported policies: what leaves acts as what stays, and nothing that differs leaves."""

import json
import subprocess
import sys

import gymnasium
import numpy as np
import onnxruntime
import pytest
import torch
from torchrl.envs.utils import ExplorationType, set_exploration_type

from navrl import train
from navrl.api.policies import load
from navrl.commands.export import main
from navrl.config.checks import ConfigError
from navrl.config.compose import compose
from navrl.export.formats import FORMATS
from navrl.export.policies import (
    ACTION,
    DISTRIBUTION,
    NOISE,
    TOLERANCE,
    PolicyGraph,
    Recording,
    check,
    difference,
)
from navrl.export.policies import exported as exported_graph
from navrl.run.build import build_agent, build_env
from navrl.run.episodes import play
from navrl.run.policies import build_policy, find_policy
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
NETWORK = "agent.network.hidden_sizes=[8]"
BF16 = "agent.network.precision=bf16"


def small(*words, sampled=False, num_envs=3):
    """An untrained policy with plain preferences, its graph, and what it read and did in episodes."""
    cfg = compose("train", ["compile=off", "device=cpu", *words])
    env = build_env(cfg, num_envs=num_envs, seed=0)
    torch.manual_seed(0)
    policy = build_agent(cfg, env, num_iterations=1).policy.requires_grad_(False)
    for weights in policy.parameters():
        weights.mul_(3.0)
    graph = PolicyGraph(policy, env, sampled=sampled)
    recording = Recording(policy, graph, seed=0)
    play(env, recording, deterministic=not sampled)
    return graph, *recording.columns()


DUEL = ("env.sim.time_limit_s=8", NETWORK, "agent.network.precision=fp32")


@pytest.mark.parametrize(
    "words",
    [
        DUEL,
        (*DUEL, "action=continuous"),
        (*DUEL, *TEAM, *MEMORY),
        ("env=alice_and_bob", "agent=hmasd"),
    ],
    ids=lambda words: " ".join(words[3:5]),
)
def test_the_graph_does_what_the_policy_did_when_it_played(words):
    graph, inputs, played = small(*words)
    found = check(graph, inputs, played, graph(inputs))
    assert found.passed
    assert found.observations == len(inputs["ego" if "ego" in inputs else "view"]) > 20
    assert set(found.largest) == {ACTION, DISTRIBUTION, *(f"next_{name}" for name in graph.memory)}


def test_every_difference_is_found():
    graph, inputs, played = small(*DUEL, *MEMORY, "action=continuous")
    own = graph(inputs)
    for name in own:
        for change in (2.0 * TOLERANCE, torch.nan):
            wrong = {**own, name: own[name].clone()}
            wrong[name][5, 0] += change * wrong[name][5, 0].abs().clamp_min(1.0)
            found = check(graph, inputs, played, wrong)
            assert not found.passed
            assert found.largest[name] > TOLERANCE
        assert not check(graph, inputs, played, {**own, name: own[name][:, :1]}).passed
        assert not check(graph, inputs, played, {**own, name: own[name].double()}).passed


def test_what_was_played_counts_not_what_the_graph_says():
    graph, inputs, played = small(*DUEL)
    other = {ACTION: (played[ACTION] + 1) % 2}
    assert not check(graph, inputs, other, graph(inputs)).passed


def test_another_choice_is_as_good_only_where_it_is_as_probable():
    graph, inputs, _ = small(*DUEL)
    graph.policy.trunk.last.weight.zero_()
    graph.policy.trunk.last.bias.copy_(torch.tensor([1.0, 1.0, 0.0, 0.0, 0.0]))
    own = graph(inputs)
    assert own[ACTION][:, 0].eq(0).all()
    for choice, passes in ((1, True), (2, False), (-1, False), (3, False)):
        action = own[ACTION].clone()
        action[7, 0] = choice
        found = check(graph, inputs, own, {**own, ACTION: action})
        assert (found.passed, found.ties) == (passes, int(passes))


@pytest.mark.parametrize("kind", ["discrete", "continuous"])
def test_drawn_actions_are_quantiles_of_the_noise(kind):
    graph, inputs, played = small(*DUEL, f"action={kind}", sampled=True)
    assert ACTION not in played  # the episodes drew other numbers
    own = graph(inputs)
    assert check(graph, inputs, played, own).passed
    nearby = {**inputs, NOISE: inputs[NOISE] + 0.5 * TOLERANCE}
    assert check(graph, inputs, played, {**own, ACTION: graph(nearby)[ACTION]}).passed
    far = {**inputs, NOISE: (inputs[NOISE] + 0.5) % 1.0}
    assert not check(graph, inputs, played, {**own, ACTION: graph(far)[ACTION]}).passed


def test_a_difference_is_relative_to_numbers_above_one():
    found = difference(torch.tensor([1e6 + 1.0, 0.5, -1.7e38]), torch.tensor([1e6, 0.25, -1.7e38]))
    assert found.tolist() == [pytest.approx(1e-6), 0.25, 0.0]
    assert difference(torch.ones(2, dtype=torch.int64), torch.ones(2)).isinf().all()


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("observation=ego_spacetime", "action=discrete_fine"),
        ("env.team_size=3", "observation=entities", "action=continuous"),
        ("env.team_size=2", "observation=entities"),
        ("env=navigation", "world.count=2"),
        ("env=navigation_compat",),
        ("env=coverage",),
        ("env=alice_and_bob",),
    ],
    ids=" ".join,
)
def test_every_column_that_has_a_name_is_there(words):
    cfg = compose("train", ["compile=off", *words])
    env = build_env(cfg, num_envs=1, seed=0)
    group, action = env.observation_spec, env.action_spec
    if "agents" in group:
        group, action = group["agents"], action["agents", "action"]
    names = dict(env.column_names)
    assert len(names.pop("action")) == action.shape[-1]
    for leaf, columns in names.items():
        assert len(columns) == (1 if leaf == "lidar" else group["observation", leaf].shape[-1])
    assert env.decision_s == cfg.env.sim.get("decision_s", cfg.env.sim.get("step_s"))


def test_the_recording_is_a_fair_sample_of_all_decisions(monkeypatch):
    monkeypatch.setattr("navrl.export.policies.OBSERVATIONS", 30)
    _, inputs, played = small(*DUEL, num_envs=50)
    time_left = inputs["ego"][:, 5]  # from 1 down to 1/8
    assert len(time_left) == len(played[ACTION]) == 30
    assert len(time_left.unique()) == 8
    assert 0.4 < time_left.mean() < 0.72  # 0.5625 on the whole, with a deviation of 0.23 / sqrt(30)


# ---- whole commands ------------------------------------------------------------------------------


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
    setup.config.agent.network.precision = "fp32"
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


@pytest.mark.parametrize(
    ("words", "sampled", "sentence"),
    [
        (("env=alice_and_bob", "agent=hmasd"), True, "--sampled is not for policies with skills"),
        (("env=alice_and_bob", "agent=hmasd", "agent.ablation=no_high"), False, "draws its skills"),
    ],
)
def test_policies_that_cannot_leave(words, sampled, sentence):
    with pytest.raises(ConfigError, match=sentence):
        small(*words, sampled=sampled)
