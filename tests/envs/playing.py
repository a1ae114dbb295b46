"""Keys of episodes, rollouts of given actions, and comparisons to the last bit."""

import torch
from tensordict import TensorDict

from navrl.envs.core.random import episode_key

STEPS = 50


def keys(envs, seed=0, episode=0):
    """Return the keys of one episode of these envs, a number of them or their ids."""
    env_ids = torch.arange(envs) if isinstance(envs, int) else torch.as_tensor(list(envs))
    return episode_key(torch.full_like(env_ids, seed), env_ids, torch.full_like(env_ids, episode))


def random_actions(env, steps=STEPS, seed=0):
    """Actions (N, ...) of every step, legal or not: an env has to live with both."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return [env.full_action_spec[env.action_key].rand() for _ in range(steps)]


def play(env, actions, root=None, step=None):
    """[(frame with its "next", what the following step starts from)] of one rollout."""
    step = step or env.step_and_maybe_reset
    root = env.reset() if root is None else root
    frames = []
    for action in actions:
        frame, root = step(root.copy().set(env.action_key, action))
        frames.append((frame, root))
    return frames


def stacked(frames):
    """Stack the frames to one TensorDict (N, T), the following root under "then"."""
    whole = torch.stack([frame for frame, _ in frames], 1)
    roots = [root.exclude("action", ("agents", "action")) for _, root in frames]
    return whole.set("then", torch.stack(roots, 1))


def observed(env, frames):
    """Return the leaves of the observation that are no flags, as rows (*frames, numbers)."""
    group = () if isinstance(env.action_key, str) else env.action_key[:-1]
    found = frames[(*group, "observation")]
    size = frames.batch_dims
    return {name: leaf.flatten(size) for name, leaf in found.items() if leaf.is_floating_point()}


def assert_same(found: TensorDict, expected: TensorDict):
    """Every leaf of both is there and equal to the last bit."""
    leaves = set(expected.keys(True, True))
    assert set(found.keys(True, True)) == leaves
    different = [key for key in leaves if not torch.equal(found.get(key), expected.get(key))]
    assert not different
