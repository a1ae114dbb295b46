"""SAC of TorchRL learns air combat with a free rudder and throttle.

python docs/examples/sac.py 1000000 compile=on
"""

import sys
from collections import deque

import torch
from tensordict.nn import NormalParamExtractor, TensorDictModule, TensorDictSequential
from torch import nn
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
from torchrl.envs import EnvBase
from torchrl.modules import MLP, ProbabilisticActor, TanhNormal, ValueOperator
from torchrl.objectives import SACLoss, SoftUpdate

import navrl

NUM_ENVS, STEPS, UPDATES, BATCH = 64, 8, 8, 512
SEEN = ("observation", "ego")


def networks(env: EnvBase) -> tuple[nn.Module, nn.Module, nn.Module]:
    """Return actor, critic, and the actor with actions that the world takes."""
    spec = env.action_spec
    size = spec.shape[-1]
    bounds = {"low": spec.space.low[0], "high": spec.space.high[0], "event_dims": 1}
    layers = {"num_cells": [128, 128], "activation_class": nn.ReLU}
    head = nn.Sequential(MLP(out_features=2 * size, **layers), NormalParamExtractor())
    actor = ProbabilisticActor(
        TensorDictModule(head, in_keys=[SEEN], out_keys=["loc", "scale"]),
        in_keys=["loc", "scale"],
        distribution_class=TanhNormal,
        distribution_kwargs=bounds,
    )
    critic = ValueOperator(MLP(out_features=1, **layers), in_keys=["action", SEEN])
    # The world's trigger is 0 or 1: the projection of its spec rounds it.
    policy = TensorDictSequential(actor, TensorDictModule(spec.project, ["action"], ["action"]))
    with torch.no_grad():
        critic(policy(env.reset()))  # fills in the sizes of the first layers
    return actor, critic, policy


def main(total_frames: int, *options: str) -> float:
    """Train in a world with these options; return the rate of wins in the last episodes."""
    torch.manual_seed(0)
    fight = ("action=continuous", "opponent=straight", "reward=shaped", *options)
    env = navrl.make("combat", *fight, num_envs=NUM_ENVS)
    actor, critic, policy = networks(env)
    loss = SACLoss(actor, critic, action_spec=env.action_spec, alpha_init=0.1)
    loss.make_value_estimator(gamma=0.99)
    targets = SoftUpdate(loss, eps=0.995)
    optimizer = torch.optim.Adam(loss.parameters(), lr=1e-3)
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(200_000), batch_size=BATCH)
    win, wins = env.episode_keys.index("win"), deque([0.0], maxlen=256)
    sizes = {"frames_per_batch": NUM_ENVS * STEPS, "total_frames": total_frames}
    sizes["auto_register_policy_transforms"] = False
    for number, rollout in enumerate(Collector(env, policy, **sizes), 1):
        buffer.extend(rollout.reshape(-1).select("action", "observation", "next"))
        for _ in range(UPDATES):
            losses = loss(buffer.sample())
            optimizer.zero_grad()
            sum(part for name, part in losses.items() if name.startswith("loss_")).backward()
            optimizer.step()
            targets.step()
        ahead = rollout["next"]
        wins.extend(ahead["episode"][ahead["done"].squeeze(-1)][:, win].tolist())
        if number % 100 == 0:
            frames = number * rollout.numel()
            print(f"{frames} frames: {100 * sum(wins) / len(wins):.0f} % of the last episodes won")
    return sum(wins) / len(wins)


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
