"""Train one run by other numbers of processes than cores, and compare what comes out.

    .venv/bin/python scripts/many_ranks.py equal     # 1, 2, 3 and 4 ranks, 20 iterations
    .venv/bin/python scripts/many_ranks.py eight     # 8 ranks, through shared memory and through gloo
    .venv/bin/python scripts/many_ranks.py many      # 64 ranks through gloo; then one of them is killed

The processes are forks of one that has imported everything, so that 64 share its memory. fp32, compile=off.
"""

import contextlib
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from fault_kills import RUN, run_rows, run_state, train
from navrl.storage.compare import differences
from timing import parser

_TINY = (
    *RUN,
    *("agent.network.precision=fp32", "agent.network.hidden_sizes=[32,32]", "eval_episodes=2"),
    *("env.sim.time_limit_s=12", "checkpoint.save_every=1000000", "checkpoint=sync"),
)
_STEPS = 8
_LONGEST_S = 200.0


def ranked(place: Path, number: int, words: Sequence[str], *, gloo: bool) -> list[int]:
    """Return the processes of a training by so many ranks; `gloo`: without shared memory."""
    place.mkdir(parents=True)
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    os.environ.update(WORLD_SIZE=str(number), LOCAL_WORLD_SIZE=str(number))
    children = []
    for rank in range(number):
        child = os.fork()
        if child == 0:
            os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank))
            _train(place, words, gloo=gloo)
        children.append(child)
    return children


def _train(place: Path, words: Sequence[str], *, gloo: bool) -> None:
    code = 99
    try:
        log = os.open(place / "output", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for descriptor in (1, 2):
            os.dup2(log, descriptor)
        module = sys.modules["navrl.ranks.world"]  # the package has a function of that name
        no_memory = mock.patch.object(module, "shared_memory", return_value=None)
        with no_memory if gloo else contextlib.nullcontext():
            code = train(*_TINY, *words, f"hydra.run.dir={place / 'run'}")
    finally:
        os._exit(code)


def ended(children: Sequence[int]) -> tuple[list[int], float]:
    """Return the exit codes of all, and the seconds until the last had ended."""
    began, codes = time.monotonic(), {}
    while len(codes) < len(children):
        for child in set(children) - codes.keys():
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                codes[child] = os.waitstatus_to_exitcode(status)
        if time.monotonic() - began > _LONGEST_S:
            for child in set(children) - codes.keys():
                os.kill(child, signal.SIGKILL)
        time.sleep(0.05)
    return [codes[child] for child in children], time.monotonic() - began


def compare(place: Path, numbers: Sequence[int], words: Sequence[str], *, gloo: bool) -> bool:
    """Print how runs by these numbers of ranks differ from that of the first; return if one ended badly."""
    first = place / f"{numbers[0]}" / "run"
    bad = False
    for number in numbers:
        codes, seconds = ended(ranked(place / f"{number}", number, words, gloo=gloo))
        run = place / f"{number}" / "run"
        if any(codes):
            print(
                f"{number:>3} ranks: exit codes {codes}\n{(place / f'{number}' / 'output').read_text()}"
            )
            bad = True
            continue
        state, expected = run_state(run), run_state(first)
        leaves = len(differences(state, expected))
        rows = run_rows(run)
        differing = sum(a != b for a, b in zip(rows, run_rows(first), strict=True))
        way = "gloo" if gloo else "shared memory"
        print(
            f"{number:>3} ranks, {way}: {len(rows)} iterations in {seconds:.0f} s; "
            f"{leaves} leaves of the checkpoint and {differing} rows of metrics differ from {numbers[0]}; "
            f"weights by {largest(state['agent'], expected['agent']):.1e}",
            flush=True,
        )
    return bad


def largest(one: Mapping[str, Any], other: Mapping[str, Any]) -> float:
    """Return the largest difference of a weight, relative to the largest number of its tensor."""
    found = 0.0
    for part in ("policy", "critic"):
        for name, tensor in one[part].items():
            if isinstance(tensor, Tensor) and tensor.is_floating_point():
                scale = float(other[part][name].abs().max()) or 1.0
                found = max(found, float((tensor - other[part][name]).abs().max()) / scale)
    return found


def equal(place: Path) -> bool:
    """Compare 1 to 4 ranks with 12 shards of 32 envs, and with as many shards as ranks."""
    steps = ("agent.num_epochs=1", "agent.num_minibatches=2")
    size = (*steps, "num_envs=384", f"total_frames={384 * _STEPS * 20}")
    bad = compare(place / "kept", (1, 2, 3, 4), (*size, "shards=12"), gloo=False)
    print("with as many shards as ranks:")
    return bad or compare(place / "own", (1, 2, 3, 4), size, gloo=False)


def eight(place: Path) -> bool:
    """Compare 8 ranks with one, 8 shards of 32 envs."""
    words = ("num_envs=256", "shards=8", f"total_frames={256 * _STEPS * 5}")
    bad = compare(place / "memory", (1, 8), words, gloo=False)
    return bad or compare(place / "gloo", (1, 8), words, gloo=True)


def many(place: Path) -> bool:
    """Compare 64 ranks with one after one iteration; kill one of 64."""
    words = ("num_envs=256", "shards=64", "agent.num_minibatches=1")
    bad = compare(place, (1, 64), (*words, f"total_frames={256 * _STEPS}"), gloo=True)
    children = ranked(place / "killed", 64, (*words, "total_frames=100000000"), gloo=True)
    rows = place / "killed" / "run" / "metrics.jsonl"
    until = time.monotonic() + _LONGEST_S
    while time.monotonic() < until and not (rows.exists() and rows.read_text()):
        time.sleep(0.1)
    os.kill(children[37], signal.SIGKILL)
    codes, seconds = ended(children)
    good = codes.count(1) == 63 and codes[37] == -signal.SIGKILL
    print(
        f" 64 ranks, rank 37 killed: the others ended within {seconds:.1f} s, exit code 1: {good}"
    )
    return bad or not good


def main() -> int:
    """Run the chosen comparison; return 1 if a rank ended badly."""
    cases = {"equal": equal, "eight": eight, "many": many}
    arguments = parser(__doc__)
    arguments.add_argument("case", choices=cases)
    torch.set_num_threads(1)  # OpenMP does not survive a fork
    with tempfile.TemporaryDirectory() as folder:
        return int(cases[arguments.parse_args().case](Path(folder)))


if __name__ == "__main__":
    sys.exit(main())
