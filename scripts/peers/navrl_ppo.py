"""navrl itself, as `python -m navrl.train env=combat action=continuous` runs it."""

from omegaconf import DictConfig

from navrl.collectors.sync import SyncCollector
from navrl.config.compose import build
from peers.fights import Fights, Work, combat

# As shipped.
OWN = {"options": ["action=discrete", "agent.network.precision=auto", "agent.max_kl=0.05"]}


class Contestant:
    """iterate() is one iteration of the loop in navrl/train.py."""

    def __init__(self, cfg: DictConfig, work: Work) -> None:
        env = self._env = combat(cfg)
        self._agent = build(cfg.agent)(
            observation_spec=env.observation_spec,
            action_spec=env.action_spec,
            device="cpu",
            num_iterations=-(-cfg.total_frames // work.frames),
        )
        policy = self._agent.policy
        self._rollouts = iter(
            SyncCollector(env=env, policy=policy, rollout_steps=work.steps, total_frames=-1)
        )

    def iterate(self) -> None:
        """Collect and learn once."""
        rollout = next(self._rollouts)
        if Fights.watcher is not None:
            after = rollout["next"]
            Fights.watcher.see(self._env, after["done"].squeeze(-1), after["episode"])
        self._agent.update(rollout)
