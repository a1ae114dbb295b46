"""The parts of a run, and the proof for mypy that they keep navrl/contracts.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from navrl import collectors, contracts, curriculum, loggers, storage
    from navrl.agents.hmasd.agent import HMASD
    from navrl.agents.ppo.agent import PPO
    from navrl.envs.combat.env import CombatEnv
    from navrl.envs.combat.opponents.base import Pilot
    from navrl.envs.navigation.env import NavigationEnv
    from navrl.envs.navigation.planners.base import Planner

    AGENTS: tuple[type[contracts.Agent], ...] = (PPO, HMASD)
    COLLECTORS: tuple[type[contracts.Collector], ...] = (
        *(collectors.SyncCollector, collectors.StepwiseCollector),
        *(collectors.CompressedCollector, collectors.PipelinedCollector),
    )
    CURRICULA: tuple[type[contracts.Curriculum], ...] = (
        *(curriculum.NoCurriculum, curriculum.Lessons, curriculum.Stages),
    )
    LESSON_ENVS: tuple[type[contracts.LessonEnv], ...] = (CombatEnv,)
    LOGGERS: tuple[type[contracts.Logger], ...] = (
        *(loggers.NullLogger, loggers.TensorBoardLogger, loggers.WandbLogger),
    )
    OPPONENTS: tuple[type[contracts.Opponent], ...] = (Pilot,)
    PLANNERS: tuple[type[contracts.Planner], ...] = (Planner,)
    ROLLOUT_WRITERS: tuple[type[contracts.RolloutWriter], ...] = (
        *(storage.RolloutStorage, storage.NullRollouts),
    )
    SAVERS: tuple[type[contracts.Saver], ...] = (
        *(storage.CheckpointSaver, storage.AsyncSaver, storage.NullSaver),
    )
    STAGED_ENVS: tuple[type[contracts.StagedEnv], ...] = (NavigationEnv,)
