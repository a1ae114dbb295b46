"""kill -9 of ranks of one run, and of the process that started them, at random moments.

A run with restarts goes on by itself. Another one ends as a whole, and the same command with another number
of ranks goes on with it. Every run ends with the bits of a run that was never killed.
"""

import os
import random
import signal
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from fault_kills import RUN, run_rows, run_state, train
from fault_orphans import MARK, alive
from navrl.loggers.jsonl import read_metrics
from navrl.storage.checkpoint import verify
from navrl.storage.compare import differences
from navrl.storage.header import CorruptFile

_ENVS, _ITERATIONS = 192, 24  # shards of 32 envs, for 2 and for 3 ranks
WORDS = (
    *RUN,
    *(f"num_envs={_ENVS}", "shards=6", f"total_frames={_ENVS * 8 * _ITERATIONS}"),
    *("agent.network.precision=fp32", "eval_every=2", "eval_episodes=512"),
    *("env.sim.time_limit_s=12", "resume=auto"),
)
_MOMENTS = ("start", "anywhere", "save", "evaluation")
_LONGEST_S = 30.0  # until all have ended
_PATIENCE_S = 240.0


class RankKills(NamedTuple):
    """Counts of kills and of faults after them; those from `corrupt` on have to be 0."""

    kills: int
    launchers: int  # kills of the process that started the ranks
    first: int  # kills of rank 0
    mid_save: int  # while a save was under way
    went_on: int  # by themselves
    slowest_end_s: float  # until all were gone, of the others
    corrupt: int  # checkpoints
    hung: int  # processes that were there after 30 s
    wrong: int  # exit codes
    gaps: int  # iterations without a row in metrics.jsonl
    doubles: int
    different_leaves: int  # of the last checkpoint
    different_rows: int


def kill_ranks(count: int, place: Path, seed: int) -> RankKills:
    """Kill `count` runs once each, by two and by three ranks, with restarts and without."""
    torch.set_num_threads(1)  # OpenMP does not survive a fork
    place.mkdir()
    whole = place / "whole"
    if _wait(_start(whole, "whole", ["ranks=1"])) != 0:
        raise RuntimeError("the run without kills has failed")
    found = RankKills(*[0] * len(RankKills._fields))
    for number in range(seed, seed + count):  # so that parts of a campaign differ
        found = _sum(found, _one(place, number, whole))
    return found._replace(kills=count)


def _sum(before: RankKills, one: RankKills) -> RankKills:
    added = RankKills(*(a + b for a, b in zip(before, one, strict=True)))
    return added._replace(slowest_end_s=max(before.slowest_end_s, one.slowest_end_s))


def _one(place: Path, number: int, whole: Path) -> RankKills:
    """Kill a process of a run at a moment, let the run come to its end, and compare it."""
    rng = random.Random(number)
    run, mark = place / f"run{number}", f"{os.getpid()}-ranks-{number}"
    ranks, restarts = 2 + number % 2, number // 2 % 2
    words = [f"ranks={ranks}", f"restarts={restarts}"]
    launcher = _start(run, mark, words)
    moment = _MOMENTS[(number + number // 4) % len(_MOMENTS)]
    _wait_for(moment, run, rng, launcher)
    victim = rng.randrange(-1, ranks)  # -1: the launcher
    pid = launcher if victim < 0 else _pid(mark, victim)
    mid_save = bool(list(run.glob("checkpoints/.*.tmp")))
    os.kill(pid, signal.SIGKILL)
    goes_on = restarts > 0 and victim >= 0
    code, ended_s, hung = _end(launcher, mark, _PATIENCE_S if goes_on else _LONGEST_S)
    corrupt = _corrupt(run)
    # Before it has trained, a run that lost a rank may end with any code but 0.
    wrong = (code != 0) if goes_on else (code == 0)
    if code != 0:
        wrong += _wait(_start(run, mark, [f"ranks={5 - ranks}", "restarts=0"])) != 0
    rows = [
        int(row["iteration"])
        for row in read_metrics(run / "metrics.jsonl")
        if "time/iteration"
        in row  # others are late results of an evaluation that a signal cut short
    ]
    print(
        f"  {ranks} ranks, restarts={restarts}, {moment}: killed "
        f"{'the launcher' if victim < 0 else f'rank {victim}'}, exit code {code} after {ended_s:.1f} s",
        flush=True,
    )
    return RankKills(
        kills=1,
        launchers=int(victim < 0),
        first=int(victim == 0),
        mid_save=int(mid_save),
        went_on=int(goes_on and code == 0),
        slowest_end_s=0.0 if goes_on else ended_s,
        corrupt=corrupt,
        hung=hung,
        wrong=int(wrong),
        gaps=len(set(range(1, _ITERATIONS + 1)) - set(rows)),
        doubles=len(rows) - len(set(rows)),
        different_leaves=len(differences(_state(run), _state(whole))),
        different_rows=int(_rows(run) != _rows(whole)),
    )


def _state(run: Path) -> dict[str, Any]:
    """Return the last checkpoint, without whether evaluations were late."""
    state = run_state(run)
    return {name: part for name, part in state.items() if name not in ("evaluations", "scores")}


def _rows(run: Path) -> dict[int, dict[str, float]]:
    """Return the metrics of every iteration, late ones among them."""
    found: dict[int, dict[str, float]] = {}
    for row in run_rows(run):
        found.setdefault(int(row["iteration"]), {}).update(row)
    return found


def _start(run: Path, mark: str, words: Sequence[str]) -> int:
    """Return the process of a training, which starts the ranks."""
    child = os.fork()
    if child:
        return child
    code = 99
    try:
        os.environ[MARK] = mark
        log = os.open(run.with_suffix(".log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for descriptor in (1, 2):
            os.dup2(log, descriptor)
        code = train(*WORDS, *words, f"hydra.run.dir={run}")
    finally:
        os._exit(code)


def _wait(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _wait_for(moment: str, run: Path, rng: random.Random, launcher: int) -> None:
    """Return at the moment: before the ranks have met, or in an iteration, a save or an evaluation."""
    began, rows = time.monotonic(), 0
    wanted, delay_s = rng.randrange(2, _ITERATIONS // 2), rng.uniform(0.0, 1.0)
    if moment == "start":
        wanted, delay_s = 0, 6.0 * delay_s
    if moment == "evaluation":
        wanted += wanted % 2 - 1  # the next iteration evaluates, which takes most of its time
    while rows < wanted:
        rows = len(run_rows(run)) if (run / "metrics.jsonl").exists() else 0
        _require_alive(launcher, began)
        time.sleep(0.01)
    while moment == "save" and not list(run.glob("checkpoints/.*.tmp")):
        _require_alive(launcher, began)
        time.sleep(0.001)
    if moment != "save":
        time.sleep(delay_s)


def _require_alive(launcher: int, began: float) -> None:
    if time.monotonic() - began > _PATIENCE_S or os.waitpid(launcher, os.WNOHANG)[0]:
        raise RuntimeError("the training ended, or took too long, before the moment of the kill")


def _pid(mark: str, rank: int) -> int:
    """Return the process of a rank, once it is there."""
    until = time.monotonic() + _PATIENCE_S
    while time.monotonic() < until:
        for pid in alive(mark):
            environment = Path("/proc", str(pid), "environ").read_bytes().split(b"\0")
            if f"RANK={rank}".encode() in environment:
                return pid
        time.sleep(0.01)
    raise RuntimeError(f"rank {rank} has not begun")


def _end(launcher: int, mark: str, longest_s: float) -> tuple[int, float, int]:
    """Return the exit code, the seconds until all were gone, and how many of them had to be killed."""
    began = time.monotonic()
    code = None
    while time.monotonic() - began < longest_s and (code is None or alive(mark)):
        if code is None:
            done, status = os.waitpid(launcher, os.WNOHANG)
            code = os.waitstatus_to_exitcode(status) if done else None
        time.sleep(0.02)
    ended_s, left = time.monotonic() - began, alive(mark)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    return (_wait(launcher) if code is None else code), ended_s, len(left)


def _corrupt(run: Path) -> int:
    """Return how many checkpoints cannot be read."""
    damaged = 0
    for path in run.glob("checkpoints/step_*.ckpt"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                verify(path)
            except (CorruptFile, OSError):
                damaged += 1
    return damaged
