"""Measure `navrl tune`: what it finds from a bad start, the frames that pruning saves, kills of workers.

python scripts/bench_tune.py search FOLDER            # half an hour of two cores
python scripts/bench_tune.py kills FOLDER             # five minutes
python scripts/bench_tune.py population FOLDER 1 2 3  # a population beside a search, for each of these seeds
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
WINDY = [
    *("plugins=[windy]", "env=windy", "experiment=classic", "compile=off", "eval_episodes=500"),
    *("num_envs=64", "rollout_steps=64", "agent.num_epochs=4", "agent.num_minibatches=8"),
]
MEMBERS, GENERATIONS, GENERATION = 8, 5, 16 * 64 * 64  # frames of a generation
EXAMPLES = Path(__file__).resolve().parents[1] / "docs" / "examples"
OBJECTIVE = "eval/mixture/win"


def navrl(folder: Path, *words: str) -> list[str]:
    """Return a command of this installation."""
    return [sys.executable, "-m", "navrl.cli", *words]


def records(study: Path) -> list[dict[str, object]]:
    """Return the trials of a study, as its page shows them."""
    page = (study / "report.html").read_text(encoding="utf-8")
    data = page.split('id="data">', 1)[1].split("</script>", 1)[0]
    return json.loads(data)


def write_space(folder: Path) -> None:
    """Write the space of a search that begins badly."""
    (folder / "conf" / "tune").mkdir(parents=True, exist_ok=True)
    (folder / "conf" / "tune" / "start.yaml").write_text(SPACE)


def search(folder: Path, trials: int, pruner: str) -> None:
    """Search from a bad start, then train the best and the defaults with other seeds."""
    write_space(folder)
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


def population(folder: Path, seed: int) -> None:
    """Train a population and search, with as many frames and the same bad start, and compare the best."""
    write_space(folder)
    frames = MEMBERS * GENERATIONS * GENERATION
    own = {
        "population": ["--pbt", "--population", str(MEMBERS), "--interval", str(GENERATION)],
        "search": ["--trials", str(MEMBERS), "--pruner", "none"],
    }
    for kind, flags in own.items():
        study, began = f"{kind}-{seed}", time.monotonic()
        total = f"total_frames={frames // MEMBERS}"
        words = [f"study={study}", "space=start", f"seed={seed}", *WINDY, *BAD, total]
        words += [*flags, "--config-dir", "conf", "--workers", "2"]
        subprocess.run(navrl(folder, "tune", *words), cwd=folder, check=True, env=with_examples())
        seconds = time.monotonic() - began
        place = folder.absolute() / "multirun/tune" / study
        runs, scores = members_of(place) if kind == "population" else trials_of(place)
        best = max(range(len(scores)), key=scores.__getitem__)
        again = evaluated(folder, runs[best])
        shown = " ".join(f"{score:.3f}" for score in scores)
        print(
            f"{study}: best {scores[best]:.3f}, in other episodes {again:.3f}, all {shown}, {seconds:.0f} s"
        )


def members_of(study: Path) -> tuple[list[Path], list[float]]:
    """Return the runs and the scores of the last generation."""
    *_, last = json.loads((study / "population.json").read_text())
    return [study / each["run"] for each in last], [each["score"] for each in last]


def trials_of(study: Path) -> tuple[list[Path], list[float]]:
    """Return the runs and the scores of a search's trials."""
    runs = sorted(path.parent for path in study.glob("trials/*/*/summary.json"))
    summaries = [json.loads((run / "summary.json").read_text()) for run in runs]
    return runs, [each["eval/windy/near"] for each in summaries]


def evaluated(folder: Path, run: Path) -> float:
    """Return the result of a policy in 2,000 episodes that chose nothing."""
    output = folder / "evaluation.json"
    words = ["plugins=[windy]", f"checkpoint={run}", "seed=999", "num_episodes=2000"]
    command = navrl(folder, "evaluate", *words, "compile=off", f"output={output.absolute()}")
    subprocess.run(command, cwd=folder, check=True, env=with_examples(), stdout=subprocess.DEVNULL)
    return json.loads(output.read_text())["metrics"]["near"]["mean"]


def with_examples() -> dict[str, str]:
    """Return the environment in which the package windy is found."""
    paths = [str(EXAMPLES), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


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
    parser.add_argument("what", choices=["search", "kills", "population"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("seeds", type=int, nargs="*", default=[1, 2, 3])
    parser.add_argument("--trials", type=int, default=0)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--pruner", default="median")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.what == "search":
        search(options.folder, options.trials or 24, options.pruner)
    elif options.what == "population":
        for seed in options.seeds:
            population(options.folder, seed)
    else:
        kills(options.folder, options.trials or 12, options.kills)


if __name__ == "__main__":
    main()
