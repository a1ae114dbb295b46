"""eval_every: who plays the evaluations of a run, the loop itself or a process of its own beside it."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import subprocess
import sys
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection, Pipe
from types import SimpleNamespace
from typing import Any, NamedTuple, Self

import torch
from omegaconf import DictConfig
from torch import Tensor

from navrl.config.compose import from_json, to_json
from navrl.evaluate import measure
from navrl.run.options import prepare_process
from navrl.run.policies import build_env, build_policy

_WORKER = "from navrl.run.evaluation import serve; serve()"
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_READY = "ready"
_MOST_REQUESTS = (
    16  # before the loop waits after all: their weights take memory, and room in checkpoints
)
_NICENESS = 10  # training comes first where there are fewer cores than processes


class Result(NamedTuple):
    """What an evaluation found, and the row that it belongs to."""

    metrics: dict[str, float]
    iteration: int
    frames: int


class EvaluationFailed(RuntimeError):  # noqa: N818 (it says what it is without a suffix)
    """The process beside the loop could not evaluate; the message is one sentence for the user."""


class Examiner:
    """The loop evaluates, and waits."""

    def __init__(self, cfg: DictConfig) -> None:
        self.cfg = cfg

    def due(self, iteration: int) -> bool:
        """Whether this iteration's policy is to be evaluated."""
        return bool(self.cfg.eval_every) and iteration % self.cfg.eval_every == 0

    def examine(self, agent: Any, *, iteration: int, frames: int) -> dict[str, float]:
        """What is known at once."""
        found = measure(self.cfg, agent, {}, seed=self.cfg.eval_seed)
        return found | _labelled(agent.policy.version)

    def results(self) -> Iterator[Result]:
        """What has become known of earlier iterations since this was asked last."""
        return iter(())

    def rest(self, tell: Callable[[str], None]) -> Iterator[Result]:
        """What is still to come, when it comes."""
        return iter(())

    def state_dict(self) -> list[dict[str, Any]]:
        """What a run that goes on has to evaluate still."""
        return []

    def load_state_dict(self, state: list[dict[str, Any]], tell: Callable[[str], None]) -> None:
        """Say what comes to nothing: another process began it."""
        for each in state:
            tell(f"frame {each['frames']:,} is not evaluated, because eval_async is off by now")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is under way."""


class _Request(NamedTuple):
    """An evaluation to make."""

    iteration: int
    frames: int
    version: int
    weights: dict[str, Tensor]


class AsideExaminer(Examiner):
    """eval_async=true: a process evaluates copies of the weights, one by one, while training goes on.

    A thread would share the interpreter, torch's random numbers and the exploration mode with training.
    Requests wait on this side of the pipe until the process listens, so that sending never blocks; what is
    not done yet is part of a checkpoint, so that a stopped run needs not wait and loses nothing.
    """

    def __init__(self, cfg: DictConfig) -> None:
        super().__init__(cfg)
        self._requests: deque[_Request] = deque()  # the first one may be under way
        self._listens = False
        self._pipe, theirs = Pipe()
        with (
            theirs,
            _blocked(_SIGNALS),
        ):  # inherited: when this process ends is the loop's to decide
            command = [sys.executable, "-c", _WORKER, str(theirs.fileno())]
            self._process = subprocess.Popen(
                command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL
            )
        self._pipe.send(to_json(cfg))

    def examine(self, agent: Any, *, iteration: int, frames: int) -> dict[str, float]:
        """Nothing yet: a copy of the weights takes its place in the queue."""
        policy = agent.policy
        weights = {name: value.detach().clone() for name, value in policy.state_dict().items()}
        self._requests.append(_Request(iteration, frames, policy.version, weights))
        with _plain_errors(self._process):
            self._begin()
        return {}

    def results(self) -> Iterator[Result]:
        """What has arrived; without waiting, unless evaluations are far behind."""
        with _plain_errors(self._process):
            while self._pipe.poll(None if len(self._requests) > _MOST_REQUESTS else 0.0):
                yield from self._received()

    def rest(self, tell: Callable[[str], None]) -> Iterator[Result]:
        """What is under way and what waits, however long it takes."""
        number = len(self._requests)
        if number:
            named = f"{number} evaluations of" if number > 1 else "1 evaluation of an"
            tell(f"waiting for {named} earlier polic{'ies' if number > 1 else 'y'}")
        with _plain_errors(self._process):
            while self._requests:
                yield from self._received()

    def state_dict(self) -> list[dict[str, Any]]:
        """All requests, with their weights."""
        return [request._asdict() for request in self._requests]

    def load_state_dict(self, state: list[dict[str, Any]], tell: Callable[[str], None]) -> None:
        """Put them into the queue again."""
        self._requests.extend(_Request(**each) for each in state)

    def __exit__(self, *_: object) -> None:
        """End the process, whatever it is doing."""
        self._process.kill()
        self._process.wait()
        self._pipe.close()

    def _begin(self) -> None:
        """Send the first request to a process that listens for one."""
        if self._listens and self._requests:
            self._listens = False
            with io.BytesIO() as content:
                torch.save(self._requests[0].weights, content)
                self._pipe.send_bytes(content.getbuffer())

    def _received(self) -> Iterator[Result]:
        """The next message: the process listens at last, has a result, or failed."""
        message = self._pipe.recv()
        if isinstance(message, dict):
            done = self._requests.popleft()
            yield Result(message | _labelled(done.version), done.iteration, done.frames)
        elif message != _READY:
            raise EvaluationFailed(f"an evaluation failed: {message}")
        self._listens = True
        self._begin()


def serve() -> None:
    """The process beside the loop: weights in, metrics out, until nobody is at the other end of the pipe."""
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
    cfg = from_json(pipe.recv())
    prepare_process(cfg.threads)
    home = build_env(cfg, num_envs=1, seed=0, compile_mode="off")
    pipe.send(_READY)
    while True:
        weights = torch.load(io.BytesIO(pipe.recv_bytes()), weights_only=True)
        policy = build_policy("", cfg, {"agent": {"policy": weights}}, home)
        pipe.send(measure(cfg, SimpleNamespace(policy=policy), {}, seed=cfg.eval_seed))


def examiner(cfg: DictConfig) -> Examiner:
    """Whoever evaluates in a run with these options."""
    aside = bool(cfg.eval_every) and cfg.eval_async
    return AsideExaminer(cfg) if aside else Examiner(cfg)


def _labelled(version: int) -> dict[str, float]:
    return {"eval/policy_version": float(version)}


@contextlib.contextmanager
def _plain_errors(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """A pipe that nobody is at the other end of, in one sentence."""
    try:
        yield
    except (EOFError, ConnectionError) as error:
        raise EvaluationFailed(
            f"the process that evaluates ended with exit code {process.wait()}; expected it to live as "
            "long as the run; set eval_async=false to evaluate in the training process"
        ) from error


@contextlib.contextmanager
def _blocked(signals: tuple[signal.Signals, ...]) -> Iterator[None]:
    """While open, these signals wait; who is started meanwhile never gets them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
