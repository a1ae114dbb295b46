"""Write what a training iteration costs on this machine's GPU; without one, an estimate for an RTX 4090.

    .venv/bin/python scripts/gpu_report.py    # gpu-report.json, to send back; two worlds alone without a GPU
    .venv/bin/python scripts/gpu_report.py env=combat agent=ppo agent.network.hidden_sizes=[64,64]

With CUDA it measures: milliseconds of collection and update as `navrl bench`, and kernels by torch.profiler.
Without it estimates, and says so: kernels after fusion, bytes and products are counted as
tests/collectors/cuda_kernels.py describes, and each kernel takes the longest of a launch of 3 us, its bytes
at 1008 GB/s and its products at 82.6 TFLOP/s. Python is taken to keep ahead of the GPU, which it may not: an
estimate is the most to hope for. Minutes for a world without a GPU, a minute with one.
"""

import json
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

from timing import parser

ROOT = Path(__file__).parents[1]
WORLDS = (
    "env=combat agent=ppo",
    "env=navigation agent=ppo_navigation",
    "env=coverage agent=mappo",
    "env=alice_and_bob agent=ippo",
)
COUNTED = ("env=combat agent=ppo", "env=alice_and_bob agent=ippo")  # without a GPU
PARTS = ("collection", "update")


def main() -> None:
    """Measure or estimate every world, print a table, write the file."""
    options = parser(__doc__, overrides=True, repeats=7)
    options.add_argument("--json", type=Path, default=Path("gpu-report.json"), metavar="FILE")
    given = options.parse_args()
    measured = torch.cuda.is_available()
    envs = {it for it in given.overrides if it.startswith("env=")}
    if not measured and not envs <= {world.split()[0] for world in COUNTED}:
        options.error(
            f"without a GPU {', '.join(envs)} cannot be estimated; expected one of: {', '.join(COUNTED)}"
        )
    machine = torch.cuda.get_device_name() if measured else "RTX 4090, by a model: no GPU here"
    print(f"{'measured' if measured else 'estimated'}: {machine}")
    print(f"{'':<34}{'kernels':>9}{'MB':>9}{'GFLOP':>9}{'reads':>7}{'ms':>9}{'frames/s':>12}")
    report: dict[str, Any] = {
        "measured": measured,
        "gpu": machine,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "worlds": {},
    }
    worlds = WORLDS if measured else COUNTED
    for world in [" ".join(given.overrides)] if given.overrides else worlds:
        found = (measure if measured else estimate)(world.split(), given.repeats)
        report["worlds"][world] = found
        for part in PARTS:
            print(_row(f"{world.replace('env=', '').replace('agent=', '')}: {part}", found[part]))
        seconds = sum(found[part]["seconds"] for part in PARTS)
        print(f"{'':<34}{1e3 * seconds:>43.1f}{found['frames'] / seconds:>12,.0f}", flush=True)
    given.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    print(f"wrote {given.json}" + (", please send it back" if measured else ""))


def _row(name: str, part: dict[str, Any]) -> str:
    cells = (
        f"{part['kernels']:,}",
        f"{part['bytes'] / 1e6:,.0f}" if "bytes" in part else "",
        f"{part['flops'] / 1e9:,.1f}" if "flops" in part else "",
        f"{part['reads']}" if "reads" in part else "",
    )
    widths = zip(cells, (9, 9, 9, 7), strict=True)
    text = "".join(f"{cell:>{width}}" for cell, width in widths)
    return f"{name:<34}{text}{1e3 * part['seconds']:>9.1f}"


def estimate(overrides: list[str], _: int) -> dict[str, Any]:
    """Return what tests/collectors/cuda_kernels.py counts, in a process of its own."""
    command = [sys.executable, "-m", "tests.collectors.cuda_kernels", *overrides]
    done = subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def measure(overrides: list[str], repeats: int) -> dict[str, Any]:
    """Return median seconds of both parts of an iteration, and the kernels that the GPU ran in each."""
    from navrl.commands.bench import Training, alternate  # imports for seconds
    from navrl.config.compose import compose

    training = Training(compose("train", overrides))
    run = {"collection": training.collect, "update": training.update}
    spreads = alternate(run, repeats, training.device)
    found: dict[str, Any] = {"frames": training.frames}
    for name, part in run.items():
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            part()
            torch.cuda.synchronize()
        kernels = [
            event
            for event in profile.events()
            if event.device_type == torch.autograd.DeviceType.CUDA and "Mem" not in event.name
        ]
        found[name] = {"seconds": spreads[name].p50, "kernels": len(kernels)}
    training.close()
    return found


if __name__ == "__main__":
    main()
