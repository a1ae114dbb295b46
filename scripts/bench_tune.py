"""Measure `navrl tune`: what it finds from a bad start, the frames that pruning saves, kills of workers.

python scripts/bench_tune.py search FOLDER   # half an hour of two cores
python scripts/bench_tune.py kills FOLDER    # five minutes
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

TRAINING = [
    *("env=combat", "agent=ppo", "num_envs=256", "total_frames=1000000"),
    *("eval_opponents=[mixture]", "eval_episodes=1000"),
]
BAD = ["agent.optimizer.learning_rate=1e-5", "agent.loss.entropy_coef=0.3"]
SPACE = """agent.optimizer.learning_rate: {low: 1.0e-5, high: 1.0e-2, log: true}
agent.loss.entropy_coef: {low: 1.0e-4, high: 0.3, log: true}
"""
SMALL = ["env=combat", "agent=ppo", "experiment=debug", "total_frames=8192"]
AGAIN = (1, 2)  # seeds that the search has not seen
OBJECTIVE = "eval/mixture/win"


def navrl(folder: Path, *words: str) -> list[str]:
    """Return a command of this installation."""
    return [sys.executable, "-m", "navrl.cli", *words]


def records(study: Path) -> list[dict[str, object]]:
    """Return the trials of a study, as its page shows them."""
    page = (study / "report.html").read_text(encoding="utf-8")
    data = page.split('id="data">', 1)[1].split("</script>", 1)[0]
    return json.loads(data)


def search(folder: Path, trials: int, pruner: str) -> None:
    """Search from a bad start, then train the best and the defaults with other seeds."""
    (folder / "conf" / "tune").mkdir(parents=True, exist_ok=True)
    (folder / "conf" / "tune" / "start.yaml").write_text(SPACE)
    words = ["study=bad_start", "space=start", *TRAINING, *BAD, "--config-dir", "conf"]
    words += ["--trials", str(trials), "--workers", "2", "--pruner", pruner]
    began = time.monotonic()
    subprocess.run(navrl(folder, "tune", *words), cwd=folder, check=True)
    print(f"{(time.monotonic() - began) / 60:.1f} minutes")
    data = records(folder / "multirun/tune/bad_start")
    found = {each["number"]: each for each in data["trials"]}
    best = found[data["best"]]
    chosen = [f"{key}={value}" for key, value in best["params"].items()]
    print(f"bad start {found[0]['score']:.3f}, best {best['score']:.3f} with {' '.join(chosen)}")
    print(f"frames trained {data['share']:.1%}, saved {1.0 - data['share']:.1%}")
    for name, options in (("defaults", []), ("best", chosen), ("bad start", BAD)):
        scores = trained(folder, name.replace(" ", "_"), options)
        print(f"{name:<10} trained with seeds {AGAIN}: win {fmean(scores):.3f} {scores}")


def trained(folder: Path, name: str, options: Sequence[str]) -> list[float]:
    """Return the final win rates of trainings with new seeds, all at once."""
    runs = [folder / "again" / f"{name}-{seed}" for seed in AGAIN]
    children = []
    for seed, run in zip(AGAIN, runs, strict=True):
        words = [*TRAINING, *options, f"seed={seed}", "logger=none", "console=none", "resume=auto"]
        command = navrl(folder, "train", *words, f"hydra.run.dir={run.absolute()}")
        children.append(subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL))
    for child in children:
        if child.wait():
            sys.exit(f"{child.args} failed")
    return [json.loads((run / "summary.json").read_text())[OBJECTIVE] for run in runs]


def kills(folder: Path, trials: int, number: int) -> None:
    """Kill workers at random moments, and check that every trial came to its end, once."""
    draw = random.Random(0)
    words = ["study=kills", *SMALL, "--trials", str(trials), "--workers", "2", "--pruner", "none"]
    command = navrl(folder, "tune", *words)
    process = subprocess.Popen(command, cwd=folder)
    killed = 0
    while killed < number and process.poll() is None:
        time.sleep(draw.uniform(8.0, 30.0))
        workers = children_of(process.pid)
        if workers:
            os.kill(draw.choice(workers), signal.SIGKILL)
            killed += 1
    code = process.wait()
    study = folder / "multirun/tune/kills"
    data = records(study)
    states = [each["state"] for each in data["trials"]]
    done = states.count("complete")
    finished = [
        json.loads(path.read_text())["state"] for path in study.glob("trials/*/*/status.json")
    ]
    left = [
        pid
        for pid in map(int, filter(str.isdigit, os.listdir("/proc")))
        if str(study.absolute()) in words_of(pid)
    ]
    again = (study / "journal.log").read_text().count('"again_of"')
    print(
        f"exit code {code}, {killed} kills, {again} trials given again, {done} of {trials} trials complete"
    )
    print(
        f"states {sorted(set(states))}, trainings {sorted(set(finished))} ({len(finished)}), "
        f"processes left {left}"
    )
    if code or done != trials or len(states) != trials or set(finished) != {"finished"} or left:
        sys.exit("something was lost")


def words_of(pid: int) -> str:
    """Return the command line of a process, nothing if it has ended."""
    try:
        return (
            Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        )
    except OSError:
        return ""


def children_of(parent: int) -> list[int]:
    """Return the processes that this one has started itself."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            after = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(after[1]) == parent and after[0] != "Z":
            found.append(int(pid))
    return found


def main() -> None:
    """Measure what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["search", "kills"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--trials", type=int, default=0)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--pruner", default="median")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.what == "search":
        search(options.folder, options.trials or 24, options.pruner)
    else:
        kills(options.folder, options.trials or 12, options.kills)


if __name__ == "__main__":
    main()
