"""The contract of all envs, checked on each line of ENVS."""

import pytest
import torch
from tensordict import TensorDict
from torchrl.envs import EnvBase
from torchrl.envs.utils import check_env_specs

from tests.envs.conftest import ENDLESS, FEW_OPENINGS
from tests.envs.playing import assert_same, observed, play, random_actions, stacked


def partial_reset(env, root, mask):
    return env.reset(root.copy().set("_reset", mask.unsqueeze(-1)))


def episode(frames, env, name):
    """One episode statistic, (N, T), as it stood after every step."""
    return frames["next", "episode"][..., env.episode_keys.index(name)]


def test_specs_describe_what_the_env_returns(make_env):
    check_env_specs(make_env())


def test_masked_reset_leaves_other_envs_alone(make_env):
    env, twin = make_env(), make_env()
    actions = random_actions(env, 12)
    root = play(env, actions)[-1][1]
    play(twin, actions)
    mask = torch.tensor([False, True, False, False, True, False, False, False])
    before = env.runtime_state()["world"]
    fresh = partial_reset(env, root, mask)
    after = env.runtime_state()["world"]
    assert all(
        torch.equal(a[..., ~mask], b[..., ~mask]) for a, b in zip(after, before, strict=True)
    )
    assert_same(fresh[~mask], root[~mask])
    for leaf, rows in observed(env, fresh).items():
        assert (rows != observed(env, root)[leaf])[mask].any(-1).all()
    follow_up = random_actions(env, 12, seed=1)
    masked, unmasked = (stacked(play(e, follow_up, root)) for e in (env, twin))
    assert_same(masked[~mask]["next"], unmasked[~mask]["next"])
    for leaf, rows in observed(env, masked["next"]).items():
        assert not torch.equal(rows[mask], observed(env, unmasked["next"])[leaf][mask])


def test_masked_reset_begins_the_next_episode(make_env):
    env, twin = make_env(), make_env()
    root = play(env, random_actions(env, 5))[-1][1]
    mask = torch.tensor([True] + 7 * [False])
    twin.reset()
    second = twin.reset()  # a reset of everybody begins episode number 1
    begun = partial_reset(env, root, mask)
    for leaf, rows in observed(env, begun).items():
        assert torch.equal(rows[mask], observed(env, second)[leaf][mask])
    lengths = begun["episode"][:, env.episode_keys.index("length")]
    assert lengths.tolist() == [0.0] + 7 * [5.0]


def test_no_two_episodes_begin_alike(make_env, rollout, env_name):
    env = make_env()
    begun = rollout["next", "done"].squeeze(-1)
    openings = [observed(env, env.reset()), observed(env, rollout["then"][begun])]
    rows = torch.cat([torch.cat(list(part.values()), -1) for part in openings])
    assert len(rows) > 3 * 8
    different = len(rows.unique(dim=0))
    assert different > len(rows) / 2 if env_name in FEW_OPENINGS else different == len(rows)


def test_terminal_observation_is_kept(make_env, rollout, env_name):
    env, frames = make_env(), rollout
    done = frames["next", "done"].squeeze(-1)
    assert frames["next", "terminated"].any() != (env_name in ENDLESS)
    assert frames["next", "truncated"].any()
    following = observed(env, frames["then"])
    for leaf, end in observed(env, frames["next"]).items():
        start = following[leaf]
        assert torch.equal(end[~done], start[~done])
        assert (end[done] != start[done]).any(-1).all()
    assert (episode(frames, env, "length")[done] > 0.0).all()
    assert (frames["then", "episode"][done][:, env.episode_keys.index("length")] == 0.0).all()


def test_done_is_terminated_or_truncated_never_both(rollout):
    ends = rollout["next"]
    assert torch.equal(ends["done"], ends["terminated"] | ends["truncated"])
    assert not (ends["terminated"] & ends["truncated"]).any()
    assert not rollout["then", "done"].any()


def test_termination_wins_where_the_time_limit_falls_on_the_same_step(make_env, monkeypatch):
    env = make_env(num_envs=4)
    both = torch.tensor([True, True, False, False]), torch.tensor([True, False, True, False])
    monkeypatch.setattr(env, "judge", lambda state: both)
    (frame, _), *_ = play(env, random_actions(env, 1))
    flags = [frame["next", name].flatten().tolist() for name in ("terminated", "truncated", "done")]
    assert flags == [
        [True, True, False, False],
        [False, False, True, False],
        [True, True, True, False],
    ]


def test_a_seed_fixes_the_episodes(make_env, rollout):
    env = make_env(seed=4)
    actions = random_actions(env, 25)
    other = stacked(play(env, actions[:5]))
    for leaf, rows in observed(env, rollout).items():
        assert (observed(env, other)[leaf][:, 0] != rows[:, 0]).any(-1).all()
    env.set_seed(0)  # from the middle of an episode back to the first one
    assert_same(stacked(play(env, actions)), rollout[:, :25])


def test_fast_path_equals_the_honest_one(make_env, rollout):
    assert (rollout["next", "done"].sum(1) >= 2).all()
    env = make_env()
    step = lambda td: EnvBase.step_and_maybe_reset(env, td)  # noqa: E731
    assert_same(stacked(play(env, random_actions(env), step=step)), rollout)


@pytest.mark.parametrize("path", ["fast", "honest"])
def test_nothing_handed_out_changes_later(make_env, path):
    env = make_env()
    step = {
        "fast": env.step_and_maybe_reset,
        "honest": lambda td: EnvBase.step_and_maybe_reset(env, td),
    }
    handed_out, copies = [], []

    def keep(*collections):
        handed_out.extend(collections)
        copies.extend(item.clone() for item in collections)

    keep(root := env.reset())
    ends = 0
    for action in random_actions(env, 26):
        frame, root = step[path](root.copy().set(env.action_key, action))
        keep(frame, root, *env.runtime_state()["world"])
        ends += int(frame["next", "done"].sum())
    assert ends > 0
    for found, copy in zip(handed_out, copies, strict=True):
        assert (
            torch.equal(found, copy) if isinstance(found, torch.Tensor) else (found == copy).all()
        )


def test_episode_statistics_are_sums_over_the_episode(make_env, rollout):
    env, frames = make_env(), rollout
    rewards, done = frames["next", "reward"].squeeze(-1), frames["next", "done"].squeeze(-1)
    total, steps = torch.zeros(8, dtype=torch.float64), torch.zeros(8)
    rounding = torch.zeros_like(total)  # at most: half a last bit of every sum on the way
    for t in range(done.shape[1]):
        total, steps = total + rewards[:, t].double(), steps + 1.0
        rounding = rounding + 2.0**-24 * (total.abs() + rounding)
        found = episode(frames[:, t : t + 1], env, "return").squeeze(-1)
        assert ((found.double() - total).abs() <= rounding).all()
        assert torch.equal(episode(frames[:, t : t + 1], env, "length").squeeze(-1), steps)
        total, rounding, steps = (sums.where(~done[:, t], 0.0) for sums in (total, rounding, steps))
    assert rewards.abs().max() > 0.1
    parts = [episode(frames, env, name) for name in env.episode_keys if name.startswith("reward_")]
    returns = episode(frames, env, "return")
    torch.testing.assert_close(torch.stack(parts).sum(0), returns, atol=1e-5, rtol=1e-6)


def test_a_fresh_env_goes_on_from_a_saved_state(make_env, rollout):
    env, other = make_env(), make_env(seed=6)
    actions = random_actions(env)
    root = play(env, actions[:20])[-1][1]
    other.load_runtime_state(env.runtime_state())
    assert_same(stacked(play(other, actions[20:], root)), rollout[:, 20:])


def test_state_of_another_num_envs_is_refused_in_one_sentence(make_env):
    env = make_env(num_envs=4)
    env.reset()
    with pytest.raises(ValueError, match="num_envs = 4") as refused:
        make_env(num_envs=8).load_runtime_state(env.runtime_state())
    assert "\n" not in str(refused.value)


def test_what_a_policy_carries_survives_until_its_episode_ends(make_env):
    env = make_env()
    root = env.reset()
    ends = 0
    for action in random_actions(env, 36):
        steps = root.get("hidden", torch.zeros(8, 3))
        memory = TensorDict({"hidden": steps + 1.0, "reward": torch.full((8, 1), 1e9)}, [8])
        root = root.copy().set(env.action_key, action).set("next", memory)
        frame, root = env.step_and_maybe_reset(root)
        assert torch.equal(frame["next", "hidden"], steps + 1.0)
        assert frame["next", "reward"].abs().max() < 1e9
        length = root["episode"][:, [env.episode_keys.index("length")]]
        assert torch.equal(root["hidden"], length.expand(8, 3))
        ends += int(frame["next", "done"].sum())
    assert ends > 8


def test_some_choice_is_always_allowed(make_env, rollout):
    env = make_env()
    group = () if isinstance(env.action_key, str) else env.action_key[:-1]
    mask = ("then", *group, "action_mask")
    if mask not in rollout.keys(True, True):
        pytest.skip("nothing is ever forbidden here")
    masks = rollout[mask]
    spec = env.full_action_spec[env.action_key]
    binary = [2] * (masks.shape[-1] // 2)  # of an action with other columns, too
    sizes = spec.nvec.reshape(-1, spec.shape[-1])[0].tolist() if hasattr(spec, "nvec") else binary
    assert all(choice.any(-1).all() for choice in masks.split(sizes, -1))


def test_stepping_before_the_first_reset_is_an_error(make_env):
    env = make_env()
    action = TensorDict({}, [8]).set(env.action_key, random_actions(env, 1)[0])
    for use in (
        lambda env: env.step(action.copy()),
        lambda env: env.step_and_maybe_reset(action.copy()),
        lambda env: env.runtime_state(),
    ):
        with pytest.raises(RuntimeError, match=r"call env\.reset\(\)"):
            use(make_env())


def test_an_env_without_simulations_is_refused(make_env):
    with pytest.raises(ValueError, match="num_envs = 0"):
        make_env(num_envs=0)
