"""Measure `navrl watch`: how soon a list, a page and a new row are shown, memory, and what a training pays.

python scripts/bench_watch.py                 200 runs of 10,000 rows; writes 3 GB to a temporary folder
python scripts/bench_watch.py --cost 3        trainings alone, with three viewers, and with recordings too
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from websockets.sync.client import ClientConnection, connect

from navrl.loggers.jsonl import read_iterations
from navrl.storage.checkpoint import load
from navrl.storage.info import checkpoint_files

_PYTHON = (sys.executable, "-m", "navrl.cli")
_TRAIN = ("train", "experiment=debug", "console=none", "logger=none")
_VARIANTS = 8  # different contents of metrics.jsonl
_TIMED = ("time/", "memory/")
_WATCHED = ("three viewers", "three viewers and a recording of every checkpoint")


def main() -> None:
    """Measure, and print one line for each figure."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--updates", type=int, default=3600, help="rows of the growth test")
    parser.add_argument("--cost", type=int, default=0, metavar="TURNS", help="of trainings")
    parser.add_argument("--frames", type=int, default=3_276_800, help="of each of them")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.cost:
            measure_cost(Path(folder), options.cost, options.frames)
        else:
            measure_server(Path(folder), options)


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run `navrl watch` in the folder; yield the process and its address."""
    command = [*_PYTHON, "watch"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            found = re.search(r"http://(\S+?)/", server.stdout.readline())
            assert found is not None
            yield server, found[1]
        finally:
            server.send_signal(signal.SIGINT)


def viewer(address: str) -> ClientConnection:
    """Open the WebSocket of a page."""
    return connect(f"ws://{address}/live", origin=f"http://{address}", max_size=None)


def rss_mb(process: subprocess.Popen[str]) -> float:
    """Return the resident memory of a process."""
    text = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
    return int(text.partition("VmRSS:")[2].split()[0]) / 1000


# ---- the server ----


def measure_server(folder: Path, options: argparse.Namespace) -> None:
    """Measure the list, a page, updates and memory."""
    make_runs(folder, options.runs, options.rows)
    listed = _cpu_s([*_PYTHON, "runs", "ls"], folder)
    print(
        f"navrl runs ls: {listed:.2f} s of CPU time for {options.runs} runs of {options.rows:,} rows"
    )
    with serving(folder) as (server, address), viewer(address) as socket:
        started = time.perf_counter()
        rows = json.loads(socket.recv(timeout=60))["runs"]
        print(f"list of {len(rows)} runs, cold: {time.perf_counter() - started:.2f} s")
        seconds = []
        for row in rows[:12]:
            started = time.perf_counter()
            _open(socket, row["id"])
            seconds.append(time.perf_counter() - started)
        print(
            f"page of a run, cold: median {statistics.median(seconds):.2f} s, most {max(seconds):.2f} s"
        )
        print(f"memory after 12 pages: {rss_mb(server):.0f} MB")
        (live,) = [row for row in rows if row["state"] == "stale"][:1]
        run = next((folder / "outputs").glob(f"*/{live['name']}"))
        seconds = [_update_s(socket, run, live["id"], options.rows + at) for at in range(1, 21)]
        print(f"row to page: median {statistics.median(seconds):.2f} s, most {max(seconds):.2f} s")
        _grow(server, socket, run, options)


def _grow(
    server: subprocess.Popen[str], socket: ClientConnection, run: Path, options: argparse.Namespace
) -> None:
    """Append rows as fast as the server follows, while a page of the run is open."""
    last = options.rows + 20
    for part in range(4):
        for at in range(options.updates // 4):
            last += 1
            append_row(run, last)
            if at % 10 == 0:
                _until(socket, last)
        print(
            f"memory after {(part + 1) * options.updates // 4} more rows: {rss_mb(server):.0f} MB"
        )


def _cpu_s(command: list[str], folder: Path) -> float:
    before = os.times()
    subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, check=True)
    after = os.times()
    return (
        after.children_user + after.children_system - before.children_user - before.children_system
    )


def _open(socket: ClientConnection, id: str) -> dict[str, Any]:
    socket.send(json.dumps({"ids": [id], "follows": False}))
    while True:
        message = json.loads(socket.recv(timeout=60))
        if "page" in message and message["page"]["ids"] == [id]:
            return message["page"]


def _update_s(socket: ClientConnection, run: Path, id: str, iteration: int) -> float:
    """Return the seconds from a new row to the page that shows it."""
    if iteration % 20 == 1:
        _open(socket, id)
    time.sleep(random.uniform(0.2, 1.2))  # at any moment of the server's rhythm
    started = time.perf_counter()
    append_row(run, iteration)
    _until(socket, iteration)
    return time.perf_counter() - started


def _until(socket: ClientConnection, iteration: int) -> None:
    while True:
        page = json.loads(socket.recv(timeout=60)).get("page")
        if page is not None and page["rows"][0]["frames"] >= iteration * _FRAMES:
            return


# ---- runs that look like trained ones ----

_FRAMES = 32_768  # of an iteration
_row: dict[str, float] = {}


def make_runs(folder: Path, number: int, rows: int) -> None:
    """Write runs with the files and metrics of a real one, in every state that a list can show."""
    words = ("total_frames=6400", "eval_every=10", "eval_opponents=[pursuit]")
    subprocess.run([*_PYTHON, *_TRAIN, *words], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    (real,) = (folder / "outputs").glob("*/2*")
    for each in read_iterations(real / "metrics.jsonl"):
        _row.update({name: value for name, value in each.items() if math.isfinite(value)})
    variants = [_metrics(seed, rows) for seed in range(_VARIANTS)]
    config = (real / "config.yaml").read_text(encoding="utf-8")
    for index in range(number):
        run = real.with_name(f"20261120-{index:06d}-{index:04x}")
        run.mkdir()
        for name in ("environment.json", "overrides.yaml"):
            shutil.copy(real / name, run)
        (run / "summary.json").write_text("{}")
        (run / "config.yaml").write_text(config.replace("\nseed: 0\n", f"\nseed: {index % 5}\n"))
        state = ("running", "interrupted", "failed", "running")[index % 4]  # all of them are read
        status = {
            "state": state,
            "reason": "",
            "frames": rows * _FRAMES,
            "time": "2026-11-20T00:00:00",
        }
        (run / "status.json").write_text(json.dumps(status))
        (run / "metrics.jsonl").write_text(variants[index % _VARIANTS])
    shutil.rmtree(real)
    (folder / "outputs/latest").unlink()


def _metrics(seed: int, rows: int) -> str:
    dice = random.Random(seed)
    return "".join(_line(iteration, dice, iteration / rows) for iteration in range(1, rows + 1))


def _line(iteration: int, dice: random.Random, share: float) -> str:
    names = [name for name in _row if iteration % 50 == 0 or not name.startswith("eval/")]
    row = {name: _row[name] * (1.0 + 0.1 * dice.gauss(0.0, 1.0)) for name in names}
    row |= {"iteration": iteration, "frames": iteration * _FRAMES, "episode/win": share}
    return json.dumps(row) + "\n"


def append_row(run: Path, iteration: int) -> None:
    """Write one more row, as a training does."""
    with (run / "metrics.jsonl").open("a", encoding="utf-8") as file:
        file.write(_line(iteration, random.Random(iteration), 1.0))


# ---- the cost for a training ----


def measure_cost(folder: Path, turns: int, frames: int) -> None:
    """Train alone, watched, and watched with recordings, in turns; compare times and bits."""
    words = (f"total_frames={frames}", "eval_opponents=[]")
    ratios: dict[str, list[float]] = {kind: [] for kind in _WATCHED}
    for turn in range(turns):
        kinds = ["alone", *_WATCHED] if turn % 2 == 0 else [*reversed(_WATCHED), "alone"]
        times = {kind: _train(folder / f"{turn}-{kind}", words, kind) for kind in kinds}
        alone = _bits(folder / f"{turn}-alone")
        for kind, found in ratios.items():
            found.append(times[kind] / times["alone"])
            same = _bits(folder / f"{turn}-{kind}") == alone
            print(f"turn {turn + 1}: {kind}: {found[-1]:.4f}; equal bits: {same}", flush=True)
    for kind, found in ratios.items():
        spread = statistics.stdev(found) / math.sqrt(turns) if turns > 1 else math.nan
        cost = 100 * (statistics.mean(found) - 1)
        print(f"cost of {kind}: {cost:.2f} % (standard error {100 * spread:.2f} %)")


def _train(folder: Path, words: tuple[str, ...], kind: str) -> float:
    """Train in the folder and return the mean seconds of an iteration, the first ones left out."""
    folder.mkdir()
    with contextlib.ExitStack() as stack:
        if kind != "alone":
            server, address = stack.enter_context(serving(folder))
            for _ in range(3):
                viewing = (address, kind == _WATCHED[1])
                threading.Thread(target=_watch, args=viewing, daemon=True).start()
        command = [*_PYTHON, "train", "console=none", "logger=none", *words]
        began = time.monotonic()
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        if kind != "alone":
            share = 100 * _own_cpu_s(server.pid) / (time.monotonic() - began)
            print(f"{kind}: the server took {share:.1f} % of a core, its start included")
    (run,) = (folder / "outputs").glob("*/2*")
    rows = read_iterations(run / "metrics.jsonl")[3:]
    return statistics.mean(row["time/iteration"] for row in rows)


def _own_cpu_s(pid: int) -> float:
    """Return the processor time of a process without that of its children."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _watch(address: str, follows: bool) -> None:
    """View the newest run, if wanted with a recording of every checkpoint, until the server ends."""
    with contextlib.suppress(Exception), viewer(address) as socket:
        while True:
            message = json.loads(socket.recv())
            ids = [row["id"] for row in message.get("runs", []) + message.get("changed", [])]
            if ids:
                socket.send(json.dumps({"ids": ids[:1], "follows": follows}))


def _bits(folder: Path) -> Any:
    """Return everything that a run has computed, without times and memory."""
    (run,) = (folder / "outputs").glob("*/2*")
    rows = [
        {name: str(value) for name, value in row.items() if not name.startswith(_TIMED)}
        for row in read_iterations(run / "metrics.jsonl")
    ]
    policy = load(checkpoint_files(run / "checkpoints")[0])["agent"]["policy"]
    return rows, {name: value.tolist() for name, value in policy.items() if torch.is_tensor(value)}


if __name__ == "__main__":
    main()
