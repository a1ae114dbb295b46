"""python -m navrl.train: plan the run, build its parts, then the loop: learn, react, record."""

from __future__ import annotations

if __name__ == "__main__":
    from navrl.config.signals import end_at_once

    end_at_once()

import contextlib
import math
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path

from omegaconf import DictConfig

import navrl
from navrl.config.command import run_main
from navrl.envs.core.compiling import eager_at_first
from navrl.run.build import Parts, build_parts
from navrl.run.evaluation import final_evaluation
from navrl.run.plan import Plan, removed_on_error
from navrl.run.ranks import follow, planned
from navrl.run.records import Records, open_records
from navrl.run.requests import STOP, is_requested
from navrl.run.signals import Interrupt


def train(cfg: DictConfig, begun: Callable[[Path], object] = lambda _: None) -> float:
    """Run the command; return what sweeps compare: the final rate of env.objective, more is better.

    `begun` is called with the run directory once the run is locked.
    """
    with contextlib.ExitStack() as stack:
        with removed_on_error():
            plan = stack.enter_context(planned(cfg, begun))
            if plan is None:
                return math.nan  # the run is complete, or other processes have trained
            stack.enter_context(eager_at_first(plan.done))
            parts = build_parts(plan)
            # The interpreter's end cuts pipes to processes.
            stack.callback(parts.collector.shutdown)
        records = stack.enter_context(open_records(plan, parts))
        return fit(plan, parts, records)


def fit(plan: Plan, parts: Parts, records: Records) -> float:
    """Train until the last iteration or a signal, then evaluate the final policy."""
    with Interrupt(
        lambda: records.saver.saved_frames or plan.frames,
        checks="check_every" in plan.cfg.curriculum,
    ) as interrupt:
        with records.saver:
            publish(plan, parts, records, interrupt)
            left = plan.total - plan.done  # none after a stop in the final evaluation
            metrics = loop(plan, parts, records, interrupt) if left else records.last_iteration()
        early = records.evaluations.stop_reason
        if early:
            records.note(f"the training ends early: {early}")
        parts.collector.shutdown()
        records.loggers.summary(metrics)
        records.require_saved(parts.agent, interrupt)
        records.log_late(records.evaluations.rest(records.note), interrupt)
        final = interrupt.attempt(final_evaluation, plan.cfg, parts.agent, records.note)
        if final is None:
            trained = bool(early) or metrics["iteration"] == plan.total
            records.end_interrupted(interrupt, complete=trained)
            return math.nan
        interrupt.attempt(records.attach_files)
        records.end_finished({**metrics, **final}, early)
    objective = parts.env.objective
    scores = [value for name, value in final.items() if name.endswith(f"/{objective}")]
    return sum(scores) / len(scores) if scores else metrics.get(f"episode/{objective}", math.nan)


def publish(plan: Plan, parts: Parts, records: Records, interrupt: Interrupt) -> None:
    """Save the first weights for processes that collect elsewhere; let signals and requests end the wait."""
    stop_when = getattr(parts.collector, "stop_when", None)
    if stop_when is None:
        return

    def stopped() -> bool:
        if records.run.frames > plan.frames and is_requested(records.run.path, STOP):
            records.evaluation_requested(interrupt)  # takes it
        return interrupt.requested

    stop_when(stopped)
    if records.saver.saved_frames is None:  # a new run, or a branch of another
        records.save(plan, parts, plan.done, score=None, stage=parts.curriculum.stage, last=True)


def loop(plan: Plan, parts: Parts, records: Records, interrupt: Interrupt) -> dict[str, float]:
    """Collect with one policy version, learn from it, forget it; return the last iteration's metrics."""
    env, agent, collector, curriculum = parts
    run, saver, loggers, rollouts, evaluations, episodes, _ = records
    monitor = records.monitor(plan, env.device)
    # The oldest is that of the rollout's episodes.
    stages: deque[int] = deque(maxlen=1 + collector.lag)
    with records.profiler(plan, env.device) as profiler:
        for iteration, rollout in enumerate(monitor.timed(collector), plan.done + 1):
            # learn
            with monitor.section("rollouts"):
                rollouts.after(iteration, rollout, records.note)
            with collector.ahead(), monitor.section("update"):
                ended = episodes.sums(rollout)
                metrics: dict[str, float] = agent.update(rollout) | episodes.metrics(ended)

            # react
            interrupt.defer()  # from now on there is something new to save
            frames = run.frames + rollout.numel()
            with monitor.section("curriculum"):
                stages.append(curriculum.stage)
                metrics |= curriculum.after(iteration, frames, rollout, records.note)
            run.frames = frames
            for result in evaluations.results():  # of earlier iterations, before this one is saved
                loggers.late(*result)
            evaluated = records.evaluation_requested(interrupt) or evaluations.due(iteration)
            if evaluated:
                with monitor.section("evaluate"):
                    metrics |= evaluations.evaluate(
                        agent, interrupt, iteration=iteration, frames=frames
                    )

            # record
            timing = monitor.pop(frames) | saver.metrics() | collector.metrics()
            if iteration <= plan.done + plan.unsettled:
                del timing["time/eta_s"]  # its speed foretells nothing
                records.note_compiling(plan, iteration)
            loggers.log(metrics | timing, iteration=iteration, frames=frames)
            stop, save, due, enough = plan.ranks.largest(
                interrupt.number,
                interrupt.save_requested,
                evaluated or saver.due(iteration),
                bool(evaluations.stop_reason),
            )
            interrupt.adopt(stop)
            last = iteration == plan.total or bool(stop or enough)
            score = plan.score(env, metrics | episodes.latest)
            # Never after a skipped update, or a restart would continue where numbers overflow.
            if (due or last or save) and not agent.skipped_in_a_row:
                interrupt.save_requested = False
                with monitor.section("save"):
                    records.save(plan, parts, iteration, score=score, stage=stages[0], last=last)
            if last:
                break
            profiler.step()
        else:  # a signal came while the collector waited
            if not agent.skipped_in_a_row:
                records.save(plan, parts, iteration, score=score, stage=stages[0], last=True)
    return metrics | episodes.latest | monitor.summary() | {"iteration": iteration}


def main() -> None:
    """Enter `python -m navrl.train` and `navrl train`."""
    if not follow(loop):
        run_main(train, "train")


sys.modules[__name__].__class__ = navrl.Command  # navrl.train(...)

if __name__ == "__main__":
    main()
