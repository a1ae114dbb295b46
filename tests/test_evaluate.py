"""The evaluate command: exactly N episodes, one per env, and a result that can be read back."""

import json
from types import SimpleNamespace

import pytest
import torch
from tensordict import TensorDict

import navrl.evaluate
from navrl.config.checks import ConfigError
from navrl.config.compose import compose
from navrl.run import episodes, evaluation
from navrl.run.episodes import play, summarise, table
from tests.command_line import command

COARSE = "env.sim.tick_s=0.25"


class Clockwork:
    """Env i ends an episode every i + 1 steps; the statistic is the number of steps since reset."""

    episode_keys = ("clock",)

    def __init__(self, num_envs):
        self.num_envs, self.clock = num_envs, 0

    def reset(self):
        return self._root()

    def _root(self):
        zeros = torch.zeros(self.num_envs, 1)
        return TensorDict({"episode": zeros, "done": zeros.bool()}, batch_size=[self.num_envs])

    def step_and_maybe_reset(self, tensordict):
        self.clock += 1
        periods = torch.arange(self.num_envs).unsqueeze(-1) + 1
        episode = torch.full((self.num_envs, 1), float(self.clock))
        following = {"episode": episode, "done": self.clock % periods == 0}
        tensordict.set("next", TensorDict(following, batch_size=[self.num_envs]))
        return tensordict, self._root()


def test_every_env_plays_one_episode_and_short_ones_count_once():
    env = Clockwork(5)
    assert play(env, lambda td: td, deterministic=True) == {"clock": [1.0, 2.0, 3.0, 4.0, 5.0]}
    assert env.clock == 5, "it stops when the longest first episode ends"


def test_an_episode_without_end_is_refused(monkeypatch):
    monkeypatch.setattr(episodes, "_LONGEST", 5)
    env = Clockwork(5)
    play(env, lambda td: td, deterministic=True)
    env = Clockwork(6)
    env.name = "clocks"
    with pytest.raises(ConfigError, match="env=clocks goes on after 5 steps; expected an end"):
        play(env, lambda td: td, deterministic=True)
    assert env.clock == 5


def test_the_final_evaluation_plays_episodes_by_which_nothing_was_decided(monkeypatch):
    seeds = []

    def measure(config, policy, changes, *, seed):
        seeds.append(seed)
        return {"eval/win": 1.0}

    monkeypatch.setattr(evaluation, "measure", measure)
    config = compose("train", ["eval_opponents=[straight,crank]", "eval_seed=41"])
    found = evaluation.final_evaluation(config, SimpleNamespace(policy=None), lambda line: None)
    assert found == {"eval/straight/win": 1.0, "eval/crank/win": 1.0}
    assert seeds == [42, 42]
    assert compose("evaluate").seed == compose("train").eval_seed + 1


def test_rates_get_wilson_and_the_rest_students_t():
    found = summarise({"win": [1.0, 1.0, 0.0, 1.0], "launches": [0.0, 0.0, 0.0, 0.0]}, ["win"])
    # Wilson, 3 of 4, z = 1.96: centre (p + z^2/2n)/(1 + z^2/n) = 0.62753, half width 0.32687
    assert found["win"].low == pytest.approx(0.3006, abs=1e-3)
    assert found["win"].high == pytest.approx(0.9544, abs=1e-3)
    assert (found["launches"].low, found["launches"].high) == (0.0, 0.0)


def test_the_time_to_the_goal_is_that_of_successes():
    ends = {"success": [1.0, 0.0, 1.0], "goal_time_s": [4.0, 0.0, 10.0]}
    found = summarise(ends, ["success"], {"goal_time_s": "success"})["goal_time_s"]
    assert (found.mean, found.n) == (7.0, 2)
    # Student's t of 1 degree is 12.706: 7 - 12.706 * 3 is below 0, where no time is
    assert found.low == 0.0
    assert found.high == pytest.approx(7.0 + 12.7062 * 3.0, abs=1e-3)
    lost = {"success": [0.0, 0.0], "goal_time_s": [0.0, 0.0]}
    printed = table(summarise(lost, ["success"], {"goal_time_s": "success"}))
    assert printed.splitlines()[-1].split() == ["goal_time_s", "-", "-"]


def test_a_mean_that_can_be_negative_keeps_its_interval():
    found = summarise({"return": [0.0, 1.0], "kills": [0.0, 1.0]}, [])
    assert found["return"].low < 0.0
    assert found["kills"].low == 0.0


def test_a_share_is_within_0_and_1():
    # 1, 1, 1, 0.5: mean 0.875, s = 0.25, half = 3.18245 * 0.25 / 2 = 0.39781
    values = [1.0, 1.0, 1.0, 0.5]
    found = summarise({"spl": values, "path_m": values}, [], shares=("spl",))
    assert found["spl"] == (0.875, pytest.approx(0.875 - 0.39781, abs=1e-5), 1.0, 4)
    assert found["path_m"].high == pytest.approx(0.875 + 0.39781, abs=1e-5)
    assert summarise({"spl": [0.5]}, [], shares=("spl",))["spl"] == (0.5, 0.0, 1.0, 1)


@pytest.fixture
def evaluate(tmp_path, monkeypatch, capsys):
    """evaluate(*arguments) -> (exit code, what it printed)."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        return command(navrl.evaluate.main, *arguments), capsys.readouterr()

    return run


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (["opponent=scripts"], "scripts"),
        (["opponent=league"], "scripts"),
        ([], "mixture"),
        (["opponent=phase2"], "phase2"),
    ],
)
def test_the_opponent_is_named_by_the_option_that_was_chosen(evaluate, arguments, name):
    policy = ("checkpoint=scripted:straight", "num_episodes=1", "output=result.json")
    code, printed = evaluate(*policy, *arguments, "env.sim.time_limit_s=2")
    assert code == 0, printed.err
    assert f"scripted:straight against {name}: 1 episode," in printed.out
    with open("result.json", encoding="utf-8") as file:
        assert json.load(file)["opponent"] == name


def test_options_of_the_env_stand_among_the_others(evaluate):
    options = ("checkpoint=scripted:greedy", "world=pillars", "env=navigation", "num_episodes=2")
    small = ("world.count=1", "env.sim.time_limit_s=1", "output=result.json")
    assert evaluate(*options, *small)[0] == 0
    with open("result.json", encoding="utf-8") as file:
        assert json.load(file)["env"] == "navigation"


def test_a_scripted_policy_is_measured_and_written(evaluate, tmp_path):
    arguments = ("checkpoint=scripted:straight", "opponent=crank", "num_episodes=20", "seed=3")
    code, printed = evaluate(*arguments, "output=result.json", COARSE)
    assert code == 0, printed.err
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["policy"] == "scripted:straight"
    assert (result["opponent"], result["seed"], result["num_episodes"]) == ("crank", 3, 20)
    win, loss, draw = (result["metrics"][name] for name in ("win", "loss", "draw"))
    assert win["n"] == 20
    assert win["mean"] == 0.0, "who never fires never wins"
    assert win["mean"] + loss["mean"] + draw["mean"] == pytest.approx(1.0)
    assert win["low"] <= win["mean"] <= win["high"]
    assert f"{loss['mean']:.4f}" in printed.out
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["latest"], "Cannot read 'latest'; did you mean 'checkpoint=latest'?"),
        (["checkpoint=latest"], "error: no run below outputs has an intact checkpoint"),
        (["checkpoint=lastest"], "did you mean 'latest'?"),
        (["checkpoint=latest"], "no run below outputs has an intact checkpoint; train first"),
        (["checkpoint=scripted:league"], "Unknown scripted policy 'league'; available: crank, "),
        (["checkpoint=scripted:greedy"], "'greedy' is at home in env=navigation"),
        (["checkpoint=scripted:crank", "num_episodes=0"], "change num_episodes"),
        (["checkpoint=scripted:crank", "deterministic=maybe"], "expected true or false"),
        (
            ["checkpoint=scripted:crank", "opponent=checkpoint:mine"],
            "opponent.checkpoint = mine: no",
        ),
        (["checkpoint=scripted:crank", "output=no/such/folder.json"], "change output"),
        (["num_epsiodes=3"], "did you mean 'num_episodes'?"),
        (["checkpont=latest"], "did you mean 'checkpoint'?"),
    ],
)
def test_bad_input_is_one_sentence(evaluate, tmp_path, arguments, sentence):
    code, printed = evaluate(*arguments)
    assert code != 0
    assert len(printed.err.strip().splitlines()) == 1, printed.err
    assert sentence in printed.err
    assert list(tmp_path.iterdir()) == []
