"""env=alice_and_bob and env=coverage as TorchRL envs: keys, endings, statistics, own rewards, plain words."""

import pytest
import torch
from tensordict import TensorDict

from navrl.config.compose import build
from navrl.envs.alice_and_bob.sim import GridState
from tests.envs.conftest import configuration
from tests.envs.coverage.sim import scalar_radio
from tests.envs.playing import assert_same, play, random_actions, stacked

EAST, STAY = 0, 4
GRID, DRONES = "env=alice_and_bob", "env=coverage"


def make(*overrides, num_envs=4, seed=0):
    env = build(configuration(*overrides).env)
    return env(num_envs=num_envs, device="cpu", seed=seed)


def statistic(env, frame, name):
    return frame["episode"][..., env.episode_keys.index(name)]


def placed_at(env, alice, bob, collected=(False, False), step=0):
    """Every game with its agents there."""
    env.reset()
    row, column = (
        torch.tensor(part).int().unsqueeze(-1).expand(2, 4) for part in zip(alice, bob, strict=True)
    )
    flags = torch.tensor(collected).unsqueeze(-1).expand(2, 4)
    state = GridState(row, column, flags, torch.full((4,), step, dtype=torch.int32))
    env._world = env._world._replace(state=state)


def step(env, *actions):
    action = torch.tensor(actions).view(1, 2, 1).expand(4, 2, 1)
    td = env.full_action_spec.zero().set(env.action_key, action)
    frame, root = env.step_and_maybe_reset(td)
    return frame["next"], root


def test_the_last_diamond_is_rewarded_once_and_ends_the_episode():
    env = make("env=alice_and_bob")
    placed_at(env, (1, 7), (8, 1))
    following, _ = step(env, EAST, STAY)
    assert following["reward"].flatten().tolist() == [0.0] * 4
    assert not following["done"].any()
    assert statistic(env, following, "diamond_0").tolist() == [1.0] * 4
    placed_at(env, (1, 1), (8, 7), collected=(True, False))
    following, root = step(env, STAY, EAST)
    assert following["reward"].flatten().tolist() == [1.0] * 4
    assert following["terminated"].all()
    assert not following["truncated"].any()
    names = ("success", "diamond_0", "diamond_1")
    assert [statistic(env, following, name).tolist() for name in names] == [[1.0] * 4] * 3
    assert following["agents", "observation", "view"][0, 1, 9:].tolist() == [8.0, 8.0]
    assert [statistic(env, root, name).tolist() for name in names] == [[0.0] * 4] * 3


def test_time_is_up_after_a_hundred_steps():
    env = make("env=alice_and_bob")
    placed_at(env, (4, 4), (5, 5), step=98)
    following, _ = step(env, STAY, STAY)
    assert not following["done"].any()
    following, root = step(env, STAY, STAY)
    assert following["truncated"].all()
    assert not following["terminated"].any()
    assert root["agents", "observation", "view"].shape == (4, 2, 11)


def test_a_reward_for_each_diamond_can_be_had():
    env = make("env=alice_and_bob", "reward.weights.diamond=0.25")
    placed_at(env, (1, 7), (8, 1))
    assert step(env, EAST, STAY)[0]["reward"].flatten().tolist() == [0.25] * 4
    assert step(env, STAY, STAY)[0]["reward"].flatten().tolist() == [0.0] * 4


def test_drones_can_be_rewarded_each_on_their_own():
    whole, split = make("env=coverage"), make("env=coverage", "env.reward_split=per_agent")
    actions = random_actions(whole, 5)
    one, two = stacked(play(whole, actions)), stacked(play(split, actions))
    assert torch.equal(one["next", "reward"], two["next", "reward"])
    assert ("agents", "reward") not in one["next"].keys(True)
    own = two["next", "agents", "reward"]
    assert own.shape == (4, 5, 5, 1)
    torch.testing.assert_close(own.sum(2), two["next", "reward"], atol=1e-6, rtol=0.0)
    assert own.std() > 0.01


def worth(drones, users, most_drones):
    """Compute the reward of `coverage` for drones (x, y, z) and users (x, y) in plain Python."""
    sinr = scalar_radio.sinr_rows("free_space", drones, users)
    served = scalar_radio.greedy(sinr, 0.0, 10)
    links = [sinr[drone][user] for user, drone in enumerate(served) if drone >= 0]
    quality = sum(min(link / 30.0, 1.0) for link in links) / max(len(links), 1)
    height = sum((z - 50.0) / 100.0 for _, _, z in drones) / most_drones
    return 0.7 * len(links) / len(users) + 0.3 * quality - 0.1 * height


def test_drones_can_be_rewarded_with_what_the_team_would_lack_without_them():
    env = make("env=coverage", "env.reward_split=difference", "env.sim.users=cluster")
    frames = stacked(play(env, random_actions(env, 1)))
    state, brought = env.state, frames["next", "agents", "reward"][:, 0, :, 0]  # (N, n)
    for number in range(4):
        drones = state.position[:, :, number].double().t().tolist()
        users = state.users.place[:, :, number].double().t().tolist()
        whole = worth(drones, users, 5)
        lack = [whole - worth(drones[:i] + drones[i + 1 :], users, 5) for i in range(5)]
        assert brought[number].tolist() == pytest.approx(lack, abs=1e-4)
    assert brought.min() < 0.0 < brought.max()  # some disturb more than they serve


def test_restarts_apart_change_no_bit():
    """Episodes end together until two envs are restarted by hand."""
    apart, whole = (make("env=coverage", "env.sim.horizon=5") for _ in range(2))
    assert apart._restarts_apart
    whole._restarts_apart = False
    actions, some = random_actions(whole, 12), torch.tensor([[True], [False], [True], [False]])
    runs = []
    for env in (apart, whole):
        frames = play(env, actions[:3])
        root = env.reset(TensorDict({"_reset": some}, [4]))
        runs.append(stacked(frames + play(env, actions[3:], root)))
    assert runs[0]["next", "done"].sum(1).flatten().tolist() == [1, 2, 1, 2]
    assert_same(*runs)


def test_an_episode_is_judged_by_its_last_step():
    env = make("env=coverage", "env.sim.horizon=6")
    frames = stacked(play(env, random_actions(env, 6)))["next"]
    assert frames["truncated"][:, -1].all()
    assert not frames["terminated"].any()
    last = frames[:, -1]
    score = statistic(env, last, "score")
    torch.testing.assert_close(score, last["reward"].squeeze(-1))
    torch.testing.assert_close(statistic(env, last, "return"), frames["reward"].sum((1, 2)))
    norm = statistic(env, last, "score_norm")
    torch.testing.assert_close(norm, (score - 0.278) / (0.681 - 0.278))
    covered = statistic(env, last, "coverage")
    torch.testing.assert_close(statistic(env, last, "connected"), covered * 50.0)


def test_a_relay_counts_paths_and_what_arrives():
    env = make("env=coverage_compat", "env.sim.horizon=4")
    last = stacked(play(env, random_actions(env, 4)))["next"][:, -1]
    assert statistic(env, last, "connectivity").tolist() == [1.0] * 4  # of the original, always
    assert statistic(env, last, "hops").tolist() == [1.0] * 4
    assert (statistic(env, last, "throughput_mbps") > 0.0).all()
    assert "score_norm" in env.episode_keys


@pytest.mark.parametrize(
    "override",
    [
        "env.sim.num_users=40",
        "reward.weights.height=0",
        "env.sim.radio.channel=suburban",
        "env.sim.user_speed_mps=1",
    ],
)
def test_a_score_is_normalised_only_where_it_was_measured(override):
    assert "score_norm" not in make("env=coverage", override).episode_keys


def test_random_placement_is_worth_what_it_was_measured_at():
    env = make("env=coverage", num_envs=4000)
    first = play(env, [torch.zeros(4000, 5, 3)])[0][0]["next"]
    assert statistic(env, first, "score").mean().item() == pytest.approx(0.278, abs=0.01)
    assert statistic(env, first, "coverage").mean().item() == pytest.approx(0.43, abs=0.02)


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        ((GRID, "env.objective=win"), r"env\.objective = win; expected one of success"),
        (
            (GRID, "observation=raw"),
            "observation Raw reads an env with CoverageParams, .* GridParams;",
        ),
        (
            (DRONES, "observation=codes"),
            "observation Codes reads an env with GridParams, .*; expected",
        ),
        ((DRONES, "env.reward_split=each"), "= each; expected one of team, per_agent, difference"),
        (
            (DRONES, "env.sim.num_drones=1", "env.reward_split=difference"),
            r"env\.reward_split = difference; expected one of team, per_agent, with a single drone;",
        ),
        ((DRONES, "env.objective=hops"), r"env\.objective = hops; expected one of score"),
        ((DRONES, "observation.cells=0"), r"observation\.cells = 0"),
    ],
)
def test_options_that_do_not_fit_are_refused_in_one_sentence(overrides, sentence):
    with pytest.raises(ValueError, match=sentence) as refused:
        make(*overrides)
    assert "\n" not in str(refused.value)
