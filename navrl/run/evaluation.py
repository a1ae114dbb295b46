"""Evaluations of a run: in the loop, in a process beside it (eval_async), and the final one."""

from __future__ import annotations

import contextlib
import io
import math
import os
import subprocess
import sys
import traceback
from collections import deque
from collections.abc import Iterator, Mapping
from multiprocessing.connection import Connection, Pipe
from typing import Any, NamedTuple, Self

import torch
from omegaconf import DictConfig, open_dict
from torch import Tensor

from navrl.config.checks import ConfigError
from navrl.config.compose import from_json, group_option, to_json
from navrl.config.plugins import allow_plugins, allowed
from navrl.config.signals import blocked
from navrl.contracts import Agent, Env, LearnedPolicy, Note, Policy
from navrl.ranks.noise import rows_of_evaluation
from navrl.run.build import build_env, load_policy
from navrl.run.device import prepare_process
from navrl.run.early_stop import objective_of, stop_reason, stop_when
from navrl.run.episodes import play, summarise
from navrl.run.random_state import rng_state, set_rng_state
from navrl.run.signals import Interrupt

_WORKER = """
import signal, sys
from navrl.config.signals import end_with_parent
end_with_parent(int(sys.argv[2]), signal.SIGKILL)  # the import below takes seconds
from navrl.run.evaluation import serve
serve()
"""
_READY = "ready"
# Before the loop waits after all: their weights take memory, and room in checkpoints.
_MOST_REQUESTS = 16
_NICENESS = 10  # training comes first where there are fewer cores than processes


class Result(NamedTuple):
    """The metrics of an evaluation, and the row that they belong to."""

    metrics: dict[str, float]
    iteration: int
    frames: int


class EvaluationFailed(RuntimeError):  # noqa: N818 (it says what it is without a suffix)
    """The error of the evaluating process, in one sentence for the user."""


def evaluation_config(config: DictConfig, changes: Mapping[str, Any]) -> DictConfig:
    """Return the configuration with `changes`, and with the openings and held-out worlds of evaluations."""
    config = config.copy()
    for group, options in changes.items():
        if group not in config:
            raise ConfigError(
                f"env '{config.env.name}' has no {group}; leave {group}= out, or choose another env"
            )
        with open_dict(config):
            config[group] = options
    if "scenario" in config and config.eval_scenario is not None:
        with open_dict(config):
            config.scenario = group_option("scenario", config.eval_scenario)
    if "held_out" in config.env:
        config.env.held_out = True
    return config


def measure(
    cfg: DictConfig, policy: Policy, changes: Mapping[str, Any], *, seed: int
) -> dict[str, float]:
    """Return eval/<statistic> of deterministic episodes; draws none of training's random numbers."""
    config = evaluation_config(cfg, changes)
    env = build_env(config, num_envs=cfg.eval_episodes, seed=seed, compile_mode="off", known=True)
    devices = [env.device] if env.device.type == "cuda" else []
    with contextlib.closing(env), torch.random.fork_rng(devices), rows_of_evaluation():
        torch.manual_seed(seed)  # of policies that draw even where others take the best
        ends = play(env, policy, deterministic=True)
    summary = summarise(ends, env.rate_names, env.counted_when, env.share_names)
    found = {f"eval/{name}": interval.mean for name, interval in summary.items() if interval.n}
    objective = summary[env.objective]
    name = f"eval/{env.objective}"
    return found | {f"{name}_low": objective.low, f"{name}_high": objective.high}


def final_evaluation(cfg: DictConfig, agent: Agent, note: Note) -> dict[str, float]:
    """Return eval/<opponent>/<statistic> for every name in eval_opponents, and print a line for each.

    An env without opponents is played once, under the name of the env. The episodes are others than those
    of eval_seed, on which lessons were passed and `best` was chosen.
    """
    trials: dict[str, dict[str, Any]] = {str(cfg.env.name): {}}
    if "opponent" in cfg:
        trials = {name: {"opponent": group_option("opponent", name)} for name in cfg.eval_opponents}
    final: dict[str, float] = {}
    for name, changes in trials.items():
        found = measure(cfg, agent.policy, changes, seed=cfg.eval_seed + 1)
        final |= {key.replace("eval/", f"eval/{name}/", 1): value for key, value in found.items()}
        text = " | ".join(
            f"{key.removeprefix('eval/')} {value:.3f}{_bounds(key, found)}"
            for key, value in found.items()
            if "reward_" not in key and not key.endswith(("_low", "_high"))
        )
        note(f"{'against' if changes else 'in'} {name:<9} {text}   ({cfg.eval_episodes} episodes)")
    return final


def _bounds(key: str, found: Mapping[str, float]) -> str:
    """Return the 95 % interval in brackets, or nothing if there is none."""
    low, high = (found.get(f"{key}_{side}") for side in ("low", "high"))
    return "" if low is None or high is None else f" ({low:.3f}..{high:.3f})"


class _Request(NamedTuple):
    """The copy of a policy to evaluate."""

    iteration: int
    frames: int
    version: int
    weights: dict[str, Tensor]


class Evaluations:
    """Evaluations in the training process, which waits for them.

    What is not done yet is part of a checkpoint, so that a stopped run needs not wait and loses nothing.
    """

    def __init__(self, cfg: DictConfig) -> None:
        self.cfg = cfg
        self._requests: deque[_Request] = deque()
        self.scores: list[float] = []  # the objective in the evaluations of eval_every so far

    def due(self, iteration: int) -> bool:
        """Return whether the policy of this iteration is to be evaluated."""
        return bool(self.cfg.eval_every) and iteration % self.cfg.eval_every == 0

    def evaluate(
        self, agent: Agent, interrupt: Interrupt, *, iteration: int, frames: int
    ) -> dict[str, float]:
        """Evaluate the policy; return the metrics that are known at once: none after a signal."""
        self._request(agent.policy, iteration, frames)
        seed = self.cfg.eval_seed
        found = interrupt.attempt(measure, self.cfg, agent.policy, {}, seed=seed)
        if found is None:
            return {}
        self._requests.pop()
        self._note_score(found, iteration)
        return found | _labelled(agent.policy.version)

    @property
    def stop_reason(self) -> str:
        """Return why the training ends early, empty while it goes on."""
        return stop_reason(self.cfg, self.scores)

    def results(self) -> Iterator[Result]:
        """Yield results of earlier iterations that have arrived since the last call."""
        if self._requests and stop_when(self.cfg).chosen:
            before = rng_state()  # building a policy draws from it
            yield from self._rest()  # what a signal cut short counts before later ones do
            set_rng_state(before)

    def rest(self, note: Note) -> Iterator[Result]:
        """Yield the results that are still to come, however long it takes."""
        number = len(self._requests)
        if number:
            named = f"{number} evaluations of" if number > 1 else "1 evaluation of an"
            note(f"waiting for {named} earlier polic{'ies' if number > 1 else 'y'}")
        yield from self._rest()

    def state_dict(self) -> list[dict[str, Any]]:
        """Return the evaluations that a resumed run has to make, with their weights."""
        return [request._asdict() for request in self._requests]

    def load_state_dict(self, state: list[dict[str, Any]], scores: list[float]) -> None:
        """Request the evaluations again."""
        self._requests.extend(_Request(**each) for each in state)
        self.scores = list(scores)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing."""

    def _rest(self) -> Iterator[Result]:
        if not self._requests:
            return
        small = build_env(self.cfg, num_envs=1, seed=0, compile_mode="off", known=True)
        with contextlib.closing(small) as env:
            while self._requests:
                metrics = _measure_weights(self.cfg, self._requests[0].weights, env)
                yield self._done(metrics)

    def _request(self, policy: LearnedPolicy, iteration: int, frames: int) -> None:
        weights = {name: value.detach().clone() for name, value in policy.state_dict().items()}
        self._requests.append(_Request(iteration, frames, policy.version, weights))

    def _note_score(self, metrics: Mapping[str, float], iteration: int) -> None:
        """Keep the objective, unless somebody has requested the evaluation."""
        score = metrics.get(f"eval/{objective_of(self.cfg)}", math.nan)
        if self.due(iteration) and math.isfinite(score):
            self.scores.append(score)

    def _done(self, metrics: dict[str, float]) -> Result:
        """Return the result of the first request, which is one no more."""
        done = self._requests.popleft()
        self._note_score(metrics, done.iteration)
        return Result(metrics | _labelled(done.version), done.iteration, done.frames)


class AsyncEvaluations(Evaluations):
    """Evaluations in a process of their own, one after another, while training goes on (eval_async=true).

    A thread would share the interpreter, torch's random numbers and the exploration mode with training.
    Requests wait on this side of the pipe until the process listens, so that sending never blocks. The first
    one may be under way.
    """

    def __init__(self, cfg: DictConfig) -> None:
        super().__init__(cfg)
        self._ready = False
        self._pipe, theirs = Pipe()
        # Inherited: the loop decides when this process ends.
        with theirs, blocked():
            command = [sys.executable, "-c", _WORKER, str(theirs.fileno()), str(os.getpid())]
            self._process = subprocess.Popen(
                command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL
            )
        self._pipe.send((to_json(cfg), allowed()))

    def evaluate(
        self, agent: Agent, interrupt: Interrupt, *, iteration: int, frames: int
    ) -> dict[str, float]:
        """Queue a copy of the weights; return nothing yet."""
        self._request(agent.policy, iteration, frames)
        with _plain_errors(self._process):
            self._begin()
        return {}

    def results(self) -> Iterator[Result]:
        """Yield what has arrived, without waiting unless evaluations are far behind."""
        with _plain_errors(self._process):
            while self._pipe.poll(None if len(self._requests) > _MOST_REQUESTS else 0.0):
                yield from self._received()

    def __exit__(self, *_: object) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.wait()
        self._pipe.close()

    def _rest(self) -> Iterator[Result]:
        with _plain_errors(self._process):
            while self._requests:
                yield from self._received()

    def _begin(self) -> None:
        """Send the first request if the process is ready for one."""
        if self._ready and self._requests:
            self._ready = False
            with io.BytesIO() as content:
                torch.save(self._requests[0].weights, content)
                self._pipe.send_bytes(content.getbuffer())

    def _received(self) -> Iterator[Result]:
        """Receive the next message: the process is ready, has a result, or failed."""
        message = self._pipe.recv()
        if isinstance(message, dict):
            yield self._done(message)
        elif message != _READY:
            raise EvaluationFailed(f"an evaluation failed: {message}")
        self._ready = True
        self._begin()


def serve() -> None:
    """Receive weights and send metrics until the pipe is closed: the main function of the process."""
    os.nice(_NICENESS)
    with Connection(int(sys.argv[1])) as pipe, contextlib.suppress(EOFError, OSError):
        try:
            _serve(pipe)
        except (EOFError, OSError):
            raise
        except Exception as error:  # noqa: BLE001  (whatever it is, it has to be known where the run is)
            traceback.print_exc()
            pipe.send(f"{type(error).__name__}: {error}")


def _serve(pipe: Connection) -> None:
    config, plugins = pipe.recv()
    allow_plugins([f"plugins=[{','.join(plugins)}]"])
    cfg = from_json(config)
    prepare_process(cfg.threads)
    env = build_env(cfg, num_envs=1, seed=0, compile_mode="off", known=True)
    pipe.send(_READY)
    while True:
        weights = torch.load(io.BytesIO(pipe.recv_bytes()), weights_only=True)
        pipe.send(_measure_weights(cfg, weights, env))


def _measure_weights(cfg: DictConfig, weights: dict[str, Tensor], env: Env) -> dict[str, float]:
    """Return the metrics of a policy of these weights; `env` has the specs that it is built for."""
    policy = load_policy(cfg, {"agent": {"policy": weights}}, env)
    return measure(cfg, policy, {}, seed=cfg.eval_seed)


def evaluations_of(cfg: DictConfig) -> Evaluations:
    """Return the evaluations of a run with these options."""
    beside = bool(cfg.eval_every) and cfg.eval_async
    return AsyncEvaluations(cfg) if beside else Evaluations(cfg)


def _labelled(version: int) -> dict[str, float]:
    return {"eval/policy_version": float(version)}


@contextlib.contextmanager
def _plain_errors(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Turn a pipe without another end into one sentence."""
    try:
        yield
    except (EOFError, ConnectionError) as error:
        raise EvaluationFailed(
            f"the process that evaluates ended with exit code {process.wait()}; expected it to live as "
            "long as the run; set eval_async=false to evaluate in the training process"
        ) from error
