"""init=: a new run begins with the weights of an earlier one, and says which."""

import pytest
import torch

import navrl
from navrl.config.checks import ConfigError
from navrl.storage.checkpoint import load
from navrl.storage.find import find

pytestmark = pytest.mark.commands

SHORT = {
    **{"experiment": "debug", "logger": "none", "console": "none", "eval_opponents": []},
    **{"env.sim.time_limit_s": 5, "total_frames": 128},
}
FROZEN = {"agent.optimizer.learning_rate": 1e-12, "agent.optimizer.final_learning_rate": 1e-12}


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """A run with which others begin."""
    folder = tmp_path_factory.mktemp("first") / "run"
    navrl.train(SHORT, {"hydra.run.dir": folder}, seed=1)
    return folder


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def networks(run):
    """The weights of policy and critic after the last iteration."""
    agent = load(find(str(run), run.parent))["agent"]
    return {f"{part} {name}": t for part in ("policy", "critic") for name, t in agent[part].items()}


def test_everything_of_the_same_network_is_taken(first, capsys):
    """Nothing was learned since, at a learning rate of nothing."""
    run = navrl.train(SHORT, FROZEN, seed=2, init=first, opponent="straight").path
    before, after = networks(first), networks(run)
    weights = [name for name in before if "normalisers" not in name]
    assert all(torch.allclose(before[name], after[name], atol=1e-6) for name in weights)
    out = capsys.readouterr().out
    assert "beginning with 9 of 9 tensors of the policy and 9 of 9 tensors of the critic" in out
    assert "not taken" not in out


def test_a_feature_that_never_varied_keeps_a_scale_of_one(first):
    """Whether an enemy lives is always 1 in a duel.

    As many frames of variance 0 follow the 128 that are taken for variance 1.
    """
    run = navrl.train(SHORT, FROZEN, seed=2, init=first).path
    name, enemy_lives = "policy trunk.encoder.normalisers.ego.variance", 15
    before, after = networks(first)[name], networks(run)[name]
    assert (before[enemy_lives], after[enemy_lives]) == (0.0, 0.5)
    assert after.max() < 2.0


def test_normalisers_stay_behind_on_request(first, capsys):
    navrl.train(SHORT, seed=2, init=first, init_normalisers=False)
    out = capsys.readouterr().out
    assert "6 of 9 tensors of the policy" in out  # mean, variance and count are not
    assert "not taken: policy trunk.encoder.normalisers.ego.mean (init_normalisers=false)" in out


def test_another_network_takes_what_fits(first, capsys):
    """From [32, 32] to [32, 16]: 3 of the normaliser, 2 of the first layer, and the last bias."""
    run = navrl.train(
        SHORT, FROZEN, {"agent.network.hidden_sizes": [32, 16]}, seed=2, init=first
    ).path
    name = "policy trunk.layers.0.weight"
    torch.testing.assert_close(networks(run)[name], networks(first)[name], atol=1e-6, rtol=0.0)
    out = capsys.readouterr().out
    assert "beginning with 6 of 9 tensors of the policy" in out
    assert "policy trunk.layers.2.weight ((32, 32) for (16, 32))" in out


def test_a_resumed_run_does_not_begin_again(first, capsys):
    run = navrl.train(SHORT, seed=2, init=first).path
    capsys.readouterr()
    navrl.train(resume=run, total_frames=256)
    assert "beginning with" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"init": "nowhere"}, "no run, checkpoints directory or file is called 'nowhere'"),
        ({"env": "navigation", "agent": "ppo_navigation", "world.count": 2}, "no tensor of"),
        ({"init_normalisers": 3}, "init_normalisers = 3; expected true or false"),
    ],
)
def test_what_cannot_be_taken_is_one_sentence(first, options, sentence):
    short = {key: value for key, value in SHORT.items() if "env" not in options or "env" not in key}
    with pytest.raises((ConfigError, FileNotFoundError), match=sentence):
        navrl.train(short, {"init": first} | options)
