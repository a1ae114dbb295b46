"""navrl itself, as `python -m navrl.train env=combat action=continuous` runs it."""

from omegaconf import DictConfig

from navrl.collectors.sync import SyncCollector
from navrl.config.compose import build
from peers.fights import Work, combat


class Contestant:
    """iterate() is one iteration of the loop in navrl/train.py."""

    def __init__(self, cfg: DictConfig, work: Work) -> None:
        env = combat(cfg)
        self._agent = build(cfg.agent)(
            observation_spec=env.observation_spec,
            action_spec=env.action_spec,
            device="cpu",
            num_iterations=10**6,
        )
        policy = self._agent.policy
        self._rollouts = iter(
            SyncCollector(env=env, policy=policy, rollout_steps=work.steps, total_frames=-1)
        )

    def iterate(self) -> None:
        """Collect and learn once."""
        self._agent.update(next(self._rollouts))
