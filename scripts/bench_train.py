"""Where the time of a training run goes, against the floor: the same arithmetic with no library around it.

    .venv/bin/python scripts/bench_train.py [num_envs=1024] [agent.hidden_sizes=[64,64]] [threads=1] ...

Takes the options of `python -m navrl.train`. Every figure is the median of alternating repeats, so that a
busy machine slows numerator and denominator alike; read the ratios, not the milliseconds.
"""

import copy
import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from tensordict import TensorDict

from navrl.agents.ppo import MINIBATCH_KEYS, PPO
from navrl.config import build, compose
from navrl.envs.base import BatchedEnv
from navrl.rollouts import SyncCollector

REPEATS = 7  # of which the median counts
PRECISIONS = ("fp32", "bf16")


def main() -> None:
    """Print one table per precision, and JSON with --json FILE."""
    arguments = sys.argv[1:]
    output = arguments.pop(arguments.index("--json") + 1) if "--json" in arguments else None
    overrides = [argument for argument in arguments if argument != "--json"]
    results = {precision: measure(overrides, precision, REPEATS) for precision in PRECISIONS}
    for precision, result in results.items():
        print(
            f"\n{precision}: {result['num_envs']} envs, {result['threads']} threads, ms per iteration"
        )
        for name, value in result["ms"].items():
            print(f"  {name:<34}{value:10.2f}")
        for name, value in result["ratios"].items():
            print(f"  {name:<34}{value:10.3f}")
    if output:
        with open(output, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=2)


def measure(overrides: list[str], precision: str, repeats: int) -> dict[str, Any]:
    """Times and ratios of one configuration."""
    cfg = compose("train", [*overrides, f"agent.precision={precision}"])
    if cfg.threads:
        torch.set_num_threads(cfg.threads)
    torch.manual_seed(0)
    env = build(cfg.env)(num_envs=cfg.num_envs, device="cpu", seed=0)
    agent = build(cfg.agent)(
        observation_spec=env.observation_spec,
        action_spec=env.action_spec,
        device="cpu",
        num_iterations=10**6,
    )
    steps = cfg.rollout_steps
    collector = SyncCollector(env=env, policy=agent.policy, rollout_steps=steps, total_frames=-1)
    rollouts = iter(collector)
    rollout = next(rollouts)
    agent.update(rollout)  # warm: allocator, thread pool, fused kernels
    with torch.no_grad():
        flat = agent._with_advantages(rollout).select(*MINIBATCH_KEYS, strict=False).reshape(-1)
    nets, adam = bare(agent)
    agent.max_kl = None  # every gradient step is made
    times = alternate(
        {
            "collect": lambda: next(rollouts),
            "  simulator": lambda: repeat(steps, lambda: simulate(env, rollout)),
            "  network": lambda: repeat(steps, lambda: act(agent, rollout[:, 0])),
            "update": lambda: fresh_update(agent, rollout),
            "  gradient steps": lambda: gradient_steps(agent, flat),
            "  floor of the gradient steps": lambda: floor_steps(agent, flat, nets, adam),
        },
        repeats,
    )
    collect, simulator, network = times["collect"], times["  simulator"], times["  network"]
    ratios = {
        "collector overhead / collection": 1.0 - (simulator + network) / collect,
        "gradient steps / floor": times["  gradient steps"]
        / times["  floor of the gradient steps"],
        "update / floor": times["update"] / times["  floor of the gradient steps"],
        "frames/s": cfg.num_envs * steps / (collect + times["update"]) * 1000.0,
    }
    return {
        "num_envs": cfg.num_envs,
        "threads": torch.get_num_threads(),
        "ms": times,
        "ratios": ratios,
    }


def alternate(sections: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Median milliseconds of every section, measured in turns."""
    samples: dict[str, list[float]] = {name: [] for name in sections}
    for turn in range(repeats + 1):
        for name, section in sections.items():
            started = time.perf_counter()
            section()
            if turn > 0:  # the first turn warms every section
                samples[name].append((time.perf_counter() - started) * 1000.0)
    return {name: statistics.median(values) for name, values in samples.items()}


def repeat(times: int, function: Callable[[], object]) -> None:
    """Call it so often."""
    for _ in range(times):
        function()


def simulate(env: BatchedEnv, rollout: TensorDict) -> None:
    """One whole step of the env (opponents, fight, reward, restarts, observations), without TensorDict."""
    action = rollout["action"][:, 0]
    env._packed, _, _ = env._whole_step(env._started(), action, env.outside(), env._seed)


@torch.no_grad()
def act(agent: PPO, frames: TensorDict) -> None:
    """One forward of the policy with a sample and its log-probability."""
    dist = agent.policy.get_dist(frames)
    dist.log_prob(dist.sample())


def fresh_update(agent: PPO, rollout: TensorDict) -> None:
    """agent.update on a rollout that claims to be of the current policy."""
    agent.replay_tolerance = float("inf")
    agent.update(rollout.copy().set_non_tensor("policy_version", agent.policy.version))


def gradient_steps(agent: PPO, flat: TensorDict) -> None:
    """Only the loop over minibatches."""
    stopped, gradients = torch.zeros((), dtype=torch.bool), agent.gradients.of(flat)
    for index in agent.minibatches.of(flat.numel(), 0, agent.device):
        stopped, _ = agent._step(gradients(index), stopped)


def bare(agent: PPO) -> tuple[list[torch.nn.Module], torch.optim.Optimizer]:
    """Copies of the networks and an optimiser of their own."""
    nets = [copy.deepcopy(part.trunk.layers) for part in (agent.policy, agent.critic)]
    parameters = [parameter for net in nets for parameter in net.parameters()]
    return nets, torch.optim.Adam(parameters, lr=1e-6, fused=True)


def floor_steps(
    agent: PPO, flat: TensorDict, nets: list[torch.nn.Module], adam: torch.optim.Optimizer
) -> None:
    """Forward, backward and fused Adam on rows of the same number and size, and nothing else."""
    observation = flat["observation", "ego"]
    size = observation.shape[0] // agent.minibatches.number(0)
    for _ in range(agent.minibatches.num_epochs):
        for rows in observation.split(size):
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=agent.precision == "bf16"):
                outputs = [net(rows).float().square().mean() for net in nets]
            (outputs[0] + outputs[1]).backward()
            adam.step()
            adam.zero_grad(set_to_none=True)


if __name__ == "__main__":
    main()
