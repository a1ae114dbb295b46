"""navrl import-navrl: published weights there and back without a changed bit, and what is refused."""

import functools
import io
import pickle
import zipfile
from types import SimpleNamespace

import pytest
import torch

from navrl.commands import import_navrl
from navrl.config.compose import to_json
from navrl.run.build import build_env
from navrl.run.policies import build_policy, find_policy
from navrl.storage.checkpoint import load, write_state
from tests.agents.drone import drone_specs, seen_by
from tests.conftest import ROOT
from tests.published import configuration, downloaded, make_agent, published_weights, restated

ENV = ROOT / "conf" / "env" / "navigation_compat.yaml"


@pytest.fixture(autouse=True)
def _one_seed():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


# ---- the command -----------------------------------------------------------------------------


@pytest.fixture
def command(tmp_path, monkeypatch):
    """command(*arguments) -> exit code, in an empty folder, with a stand-in for the env."""
    monkeypatch.chdir(tmp_path)
    observation, action = drone_specs(1)
    env = SimpleNamespace(observation_spec=observation, action_spec=action, device="cpu")
    monkeypatch.setattr(import_navrl, "build_env", lambda *_, **__: env)
    monkeypatch.setattr(import_navrl, "_CHOICES", {"env": "combat", "agent": "ppo_navrl"})
    return import_navrl.main


def same(found, expected):
    return list(found) == list(expected) and all(
        torch.equal(found[name], tensor) and found[name].dtype == tensor.dtype
        for name, tensor in expected.items()
    )


@pytest.mark.parametrize("weights", [published_weights, downloaded])
def test_no_bit_changes_there_and_back(command, tmp_path, capsys, weights):
    weights = weights()
    torch.save(weights, tmp_path / "original.pt")
    assert command(["original.pt"]) == 0
    assert capsys.readouterr().out == (
        "wrote original.ckpt\n  next: navrl evaluate checkpoint=original.ckpt\n"
    )
    assert command(["--export", "original.ckpt", "--output", "back.pt"]) == 0
    assert capsys.readouterr().out == "wrote back.pt\n"
    assert same(torch.load(tmp_path / "back.pt", weights_only=True), weights)


def test_the_checkpoint_is_one_of_ours(command, tmp_path):
    weights = published_weights()
    weights["gae.gamma"] = torch.tensor(0.97)
    torch.save(weights, tmp_path / "w.pt")
    assert command(["w.pt", "--output", "mine.ckpt"]) == 0
    state = load(tmp_path / "mine.ckpt")
    assert state["config"]["agent"]["discount"] == 0.97
    assert state["config"]["agent"]["name"] == state["choices"]["agent"] == "ppo_navrl"
    assert state["frames"] == 0
    agent, frames = make_agent(), seen_by(50)
    agent.load_state_dict(state["agent"])
    alpha, _, _ = restated(weights, frames)
    found = agent.policy.get_dist(frames)._alpha.double()
    torch.testing.assert_close(found, alpha, rtol=1e-5, atol=1e-5)
    assert agent.policy.version == 0


@pytest.mark.skipif(not ENV.is_file(), reason="there is no env=navigation_compat")
def test_an_imported_policy_flies_in_its_env(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    weights = published_weights()
    torch.save(weights, "w.pt")
    assert import_navrl.main(["w.pt"]) == 0
    config, state, *_ = find_policy("w.ckpt", device="cpu")
    env = build_env(config, num_envs=3, seed=1, compile_mode="off")
    policy, frames = build_policy("w.ckpt", config, state, env), env.reset()
    alpha, _, _ = restated(weights, frames)
    torch.testing.assert_close(policy.get_dist(frames)._alpha.double(), alpha, rtol=1e-4, atol=1e-4)
    stepped, _ = env.step_and_maybe_reset(policy(frames))
    assert stepped["next", "reward"].isfinite().all()


# ---- refusals --------------------------------------------------------------------------------


class _Code:
    def __reduce__(self):
        return (open, ("ran", "w"))


def saved(thing):
    """The bytes that torch.save makes of it."""
    buffer = io.BytesIO()
    torch.save(thing, buffer)
    return buffer.getvalue()


def changed(**changes):
    """Published weights with tensors replaced, or removed where a change is None."""
    weights = published_weights() | changes
    return saved({name: x for name, x in weights.items() if x is not None})


def damaged():
    content = bytearray(saved(published_weights()))
    content[len(content) // 2] ^= 1
    return bytes(content)


def other_archive():
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("folder/notes.txt", "hello")
    return buffer.getvalue()


def compressed():
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("folder/data.pkl", pickle.dumps({}, protocol=2))
    return buffer.getvalue()


ALPHA = "actor.module.0.module.alpha_layer.weight"


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (lambda: b"hello " * 99, "was not written by torch.save; expected the .pt file that NavRL"),
        (lambda: pickle.dumps(_Code()), "was not written by torch.save"),
        (other_archive, "cannot be read as a file of torch.save"),
        (compressed, "is compressed or encrypted, which no file of torch.save is; expected"),
        (
            lambda: changed(**{"gae.gamma": torch.ones(()).expand(1 << 33)}),
            "has another shape or dtype of gae.gamma (float32 [8589934592], expected float32 [])",
        ),
        (damaged, "is damaged: the checksum of archive/data/"),
        (lambda: saved({"code": _Code()}), "holds pickled code or objects, which are refused"),
        (
            lambda: changed(**{ALPHA: None, "gae.gamma": None}),
            f"lacks {ALPHA}, gae.gamma; expected the network that NavRL publishes",
        ),
        (lambda: saved({"weight": torch.zeros(1)}), "module.0.module.2.bias and 33 more; expected"),
        (
            lambda: changed(**{ALPHA: torch.full((3, 256), torch.nan)}),
            f"holds numbers that are not finite in {ALPHA}; expected",
        ),
        (lambda: changed(extra=torch.zeros(1)), "has the unknown extra; expected"),
        (
            lambda: changed(**{ALPHA: torch.zeros(2, 256)}),
            f"has another shape or dtype of {ALPHA} (float32 [2, 256], expected float32 [3, 256])",
        ),
    ],
)
def test_other_files_are_refused_in_one_sentence(command, tmp_path, capsys, content, complaint):
    (tmp_path / "wrong.pt").write_bytes(content())
    assert command(["wrong.pt"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("navrl: error: ")
    assert error.count("\n") == 1
    assert complaint in error
    assert sorted(path.name for path in tmp_path.iterdir()) == ["wrong.pt"]  # nothing was run


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        ([], 2, "expected either a file to import, or --export and a policy"),
        (["a.pt", "--export", "b"], 2, "expected either a file to import"),
        (["missing.pt"], 2, "No such file or directory: 'missing.pt'"),
        (["."], 1, "Is a directory: '.'"),
        (["w.pt", "--output", "w.pt"], 2, "expected another file than the source; add --output"),
        (["w.pt", "--output", "no/where.ckpt"], 2, "expected a file in an existing folder"),
        (["--export", "nothing"], 2, "no run, checkpoints directory or file is called 'nothing'"),
    ],
)
def test_other_arguments_are_refused(command, tmp_path, capsys, arguments, code, complaint):
    (tmp_path / "w.pt").write_bytes(saved(published_weights()))
    assert command(arguments) == code
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("network.lidar_encoder", "cnn_circular"),
        ("network.activation", "relu"),
        ("value_normalisation", "none"),
        ("network.architecture", "separate"),
    ],
)
def test_what_navrl_could_not_compute_is_not_exported(command, tmp_path, capsys, option, value):
    torch.save(published_weights(), tmp_path / "w.pt")
    assert command(["w.pt"]) == 0
    state = load(tmp_path / "w.ckpt")
    *group, name = option.split(".")
    functools.reduce(dict.get, group, state["config"]["agent"])[name] = value
    write_state(tmp_path / "other.ckpt", state, frames=0, score=None)
    assert command(["--export", "other.ckpt"]) == 2
    assert f"was trained with agent.{option} = {value}; expected " in capsys.readouterr().err
    assert not (tmp_path / "other.pt").exists()


def test_a_network_of_another_size_is_not_exported(command, tmp_path, capsys):
    narrow = "agent.network.hidden_sizes=[256,128]"
    state, config = {"agent": make_agent(narrow).state_dict()}, configuration(narrow)
    state |= {"config": to_json(config), "choices": {}, "frames": 0, "iteration": 0}
    write_state(tmp_path / "x.ckpt", state, frames=0, score=None)
    assert command(["--export", "x.ckpt"]) == 2
    assert "has another shape or dtype of feature_extractor.module.3" in capsys.readouterr().err
