"""Time one decision of exported policies of air combat on one core: in Python and in C++.

python scripts/bench_export.py [--decisions 10000] [--rounds 5] [--cpp]

ONNX is run by onnxruntime with one thread, pt2 by torch, and with --cpp the same program as AOTInductor
compiles it from a program in C++ (scripts/latency.cpp, two minutes of g++). Rounds alternate; of each figure
the best round counts, because whatever else the machine does only adds.
"""

import argparse
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from torch.utils import cpp_extension

from navrl.config.compose import compose
from navrl.export.formats import FORMATS
from navrl.export.policies import PolicyGraph, Program, Recording, exported
from navrl.run.build import build_agent, build_env
from navrl.run.episodes import play

SIZES = {"64-64": "[64,64]", "256-256": "[256,256]"}
WARM_UP = 500
Columns = dict[str, torch.Tensor]


def policy(sizes: str) -> tuple[Program, Columns]:
    """Return an untrained policy of air combat with these layers, and an observation of its env."""
    words = [f"agent.network.hidden_sizes={sizes}", "agent.network.precision=fp32"]
    cfg = compose("train", ["env=combat", "env.sim.time_limit_s=5", "compile=off", *words])
    env = build_env(cfg, num_envs=4, seed=0)
    module = build_agent(cfg, env, num_iterations=1).policy.requires_grad_(False)
    graph = PolicyGraph(module, env, sampled=False)
    recording = Recording(module, graph, seed=0)
    play(env, recording, deterministic=True)
    inputs, _ = recording.columns()
    return exported(graph, inputs), {name: column[:1] for name, column in inputs.items()}


def timed(decide: Callable[[], object], decisions: int) -> np.ndarray:
    """Return the seconds of every decision."""
    for _ in range(WARM_UP):
        decide()
    seconds = np.empty(decisions)
    for number in range(decisions):
        begin = time.perf_counter()
        decide()
        seconds[number] = time.perf_counter() - begin
    return seconds


def in_onnxruntime(program: Program, seen: Columns, folder: Path) -> Callable[[int], np.ndarray]:
    """Return a function that times decisions of the ONNX file."""
    file = folder / "policy.onnx"
    file.write_bytes(FORMATS["onnx"].content(program, {}))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    inputs = {name: column.numpy() for name, column in seen.items()}
    return lambda decisions: timed(lambda: session.run(["action"], inputs), decisions)


def in_torch(program: Program, seen: Columns, folder: Path) -> Callable[[int], np.ndarray]:
    """Return a function that times decisions of the pt2 file in Python."""
    file = folder / "policy.pt2"
    file.write_bytes(FORMATS["pt2"].content(program, {}))
    module = torch.export.load(file).module()
    return lambda decisions: timed(lambda: module(seen), decisions)


def in_cpp(program: Program, seen: Columns, folder: Path) -> Callable[[int], np.ndarray]:
    """Return a function that times decisions of the compiled program in C++."""
    file, runner = folder / "compiled.pt2", folder / "latency"
    torch._inductor.aoti_compile_and_package(program.graph, package_path=str(file))
    places = [f"-I{path}" for path in cpp_extension.include_paths()]
    (libraries,) = cpp_extension.library_paths()
    source = Path(__file__).with_name("latency.cpp")
    names = ["-ltorch", "-ltorch_cpu", "-lc10"]
    linked = [f"-L{libraries}", f"-Wl,-rpath,{libraries}", "-Wl,--no-as-needed", *names]
    flags = ["-O2", "-std=c++20", "-w"]
    subprocess.run(["g++", *flags, *places, source, "-o", runner, *linked], check=True)
    widths = [str(column.shape[1]) for column in seen.values()]

    def run(decisions: int) -> np.ndarray:
        words = [runner, file, str(decisions + WARM_UP), *widths]
        done = subprocess.run(words, check=True, capture_output=True, text=True)
        return np.array(done.stdout.split(), float)[WARM_UP:]

    return run


def main() -> None:
    """Print p50 and p99 of every way and size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--decisions", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cpp", action="store_true", help="compile and time the C++ program too")
    options = parser.parse_args()
    torch.set_num_threads(1)
    ways = {"onnxruntime, Python": in_onnxruntime, "pt2, Python": in_torch}
    if options.cpp:
        ways["AOTInductor, C++"] = in_cpp
    with tempfile.TemporaryDirectory() as scratch, torch.inference_mode():
        runs = {}
        for size, sizes in SIZES.items():
            program, seen = policy(sizes)
            folder = Path(scratch, size)
            folder.mkdir()
            runs |= {(size, way): make(program, seen, folder) for way, make in ways.items()}
        rounds = [
            {name: np.percentile(run(options.decisions), [50, 99]) for name, run in runs.items()}
            for _ in range(options.rounds)
        ]
    print(f"| layers | way | p50, us | p99, us |\n|---|---|---|---|  (best of {options.rounds})")
    for size, way in runs:
        p50, p99 = 1e6 * np.min([each[size, way] for each in rounds], axis=0)
        print(f"| {size} | {way} | {p50:.1f} | {p99:.1f} |")


if __name__ == "__main__":
    main()
