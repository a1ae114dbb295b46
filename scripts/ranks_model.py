"""Model the time of an iteration by ranks from measured parts, and print what to expect of other networks.

    .venv/bin/python scripts/ranks_model.py                                   # three sizes of networks
    .venv/bin/python scripts/ranks_model.py --sizes 256-256 --measured 1.37   # beside a measured ratio

Air combat with agent=ppo. Every rank steps its share of the envs, evaluates its share of the critic, and
computes the gradients of its share of every minibatch: these are divided. Everything else all do alike. Added
are the frames that ranks send each other once an iteration, and the gradients that they send once a step.
Times are of the processor, so that neighbours count little; the shortest of a few turns is taken.
"""

import argparse
import math
import os
import socket
import sys
import time
from typing import NamedTuple

import torch

from navrl.commands.bench import Training
from navrl.config.compose import compose
from navrl.ranks import Ranks, process_group, ranks_of
from navrl.ranks.group import MOST_IN_ORDER
from timing import alternate, best, parser

_SHARDS = (1, 2, 8)
_RANKS = (2, 4, 8, 16, 64)
_WANTED = 0.04  # of a gradient step may be sending


class Network(NamedTuple):
    """An interconnect; `speedup` is that of its ranks against one core of this machine."""

    name: str
    latency_s: float  # of a message
    bytes_per_s: float
    speedup: float = 1.0
    memory: bool = False  # read by all at once, in any number


_NETWORKS = (
    Network("10 Gbit/s", 50e-6, 1.25e9),
    Network("100 Gbit/s", 10e-6, 12.5e9),
    Network("NVLink-like, ranks 20 x as fast", 10e-6, 300e9, speedup=20.0),
)


class Parts(NamedTuple):
    """The seconds of an iteration's parts in one process, and what ranks send."""

    collect: float
    values: float  # of the critic
    alike: float  # replay check, advantages, normalisers
    steps: int
    call: float  # of a gradient step whatever its rows
    rows: float  # of a gradient step for its rows
    adam: float
    gradient_bytes: int
    frame_bytes: int  # of a rollout

    @property
    def step(self) -> float:
        """Return the seconds of a gradient step."""
        return self.call + self.rows + self.adam

    def iteration(self, ranks: int, network: Network) -> float:
        """Return the seconds of an iteration by so many ranks."""
        divided = self.collect + self.values + self.steps * self.rows
        alike = self.alike + self.steps * (self.call + self.adam)
        computed = (divided / ranks + alike) / network.speedup
        if ranks == 1:
            return computed
        gathered = gather_s(network, ranks, self.frame_bytes // ranks)
        return computed + gathered + self.steps * sum_s(network, ranks, self.gradient_bytes)

    def efficiency(self, ranks: int, network: Network) -> float:
        """Return the speed-up of so many ranks over one, for each of them."""
        return self.iteration(1, network) / self.iteration(ranks, network) / ranks

    def least_bytes_per_s(self, ranks: int) -> float:
        """Return the bandwidth at which gradients take 4 % of a step."""
        return (
            (ranks - 1)
            * self.gradient_bytes
            / (_WANTED * (self.call + self.rows / ranks + self.adam))
        )


def gather_s(network: Network, ranks: int, own_bytes: int) -> float:
    """Return the seconds until each rank has the bytes of all."""
    if network.memory:
        return network.latency_s + ranks * own_bytes / network.bytes_per_s
    return (
        math.ceil(math.log2(ranks)) * network.latency_s
        + (ranks - 1) * own_bytes / network.bytes_per_s
    )


def sum_s(network: Network, ranks: int, num_bytes: int) -> float:
    """Return the seconds until each rank has the sum: up to 8 send all to all, more add on the way."""
    if network.memory or ranks <= MOST_IN_ORDER:
        return gather_s(network, ranks, num_bytes)
    rounds = 2 * math.ceil(math.log2(ranks))
    return rounds * network.latency_s + 2 * (ranks - 1) / ranks * num_bytes / network.bytes_per_s


def measure(sizes: str, turns: int) -> Parts:
    """Measure the parts of air combat's default training with hidden layers of these sizes."""
    layers = sizes.replace("-", ",")
    cfg = compose("train", ["env=combat", "agent=ppo", f"agent.network.hidden_sizes=[{layers}]"])
    training = Training(cfg)
    agent = training.agent
    frames, sharing = agent.frames_of(training.rollout)
    flat = agent.advantages(frames, sharing).reshape(-1)
    rows = len(flat) // cfg.agent.num_minibatches
    index = torch.randperm(len(flat))[:rows]

    def gradients(shards: int) -> None:
        agent.share_gradients(Ranks(shards=shards))
        of = agent.steps.gradients.of(flat)
        found.extend(of(index) for _ in range(8))

    found: list = []
    for shards in _SHARDS:
        gradients(shards)  # compiles
    last = found[-1]
    stopped = torch.ones((), dtype=torch.bool)  # so that weights stay as they are

    def adam() -> None:
        for _ in range(8):
            agent.optimizer.step(last.of_parameters, last.norm, stopped)

    with torch.no_grad():
        times = {
            name: best(samples).thread
            for name, samples in alternate(
                {
                    "values": lambda: agent.values(frames),
                    "adam": adam,
                },
                turns,
                warm=1,
            ).items()
        }
    calls = alternate({str(n): lambda n=n: gradients(n) for n in _SHARDS}, turns, warm=1)
    times |= {name: best(samples).thread / 8 for name, samples in calls.items()}
    agent.share_gradients(Ranks())
    both = alternate({"collect": training.collect, "update": training.update}, turns, warm=1)
    collect, whole = (best(both[name]).thread for name in ("collect", "update"))
    training.close()
    # shards x call + rows, by the line through the first and the last
    call = (times["8"] - times["1"]) / 7
    steps = cfg.agent.num_minibatches * cfg.agent.num_epochs
    step = times["1"] + times["adam"] / 8
    return Parts(
        collect=collect,
        values=times["values"],
        alike=max(0.0, whole - times["values"] - steps * step),
        steps=steps,
        call=call,
        rows=times["1"] - call,
        adam=times["adam"] / 8,
        gradient_bytes=4 * sum(parameter.numel() for parameter in agent.parameters),
        frame_bytes=training.rollout.bytes(),
    )


def exchange(ranks: int, num_bytes: int, repeats: int = 400) -> float:
    """Return the seconds in which so many processes of this machine add so many bytes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    os.environ.update(WORLD_SIZE=str(ranks), LOCAL_WORLD_SIZE=str(ranks))
    reader, writer = os.pipe()
    children = []
    for rank in range(ranks):
        child = os.fork()
        if child == 0:
            try:
                os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank))
                torch.set_num_threads(1)
                _exchange(num_bytes, repeats, writer if rank == 0 else -1, ranks)
            finally:
                os._exit(0)
        children.append(child)
    os.close(writer)
    with os.fdopen(reader) as answer:
        seconds = float(answer.read())
    for child in children:
        os.waitpid(child, 0)
    return seconds


def _exchange(num_bytes: int, repeats: int, writer: int, ranks: int) -> None:
    with process_group():
        group = ranks_of(ranks, ranks)
        own, shortest = [torch.ones(num_bytes // 4)], math.inf
        for _ in range(repeats):
            began = time.perf_counter()
            group.sum_shards(own)
            shortest = min(shortest, time.perf_counter() - began)
        if writer >= 0:
            os.write(writer, str(shortest).encode())


def shared_memory() -> Network:
    """Measure the memory that two ranks of this machine share."""
    small, large = exchange(2, 80), exchange(2, 1 << 20)
    return Network("shared memory", small, 2 * (1 << 20) / (large - small), memory=True)


def report(parts: dict[str, Parts], memory: Network, options: argparse.Namespace) -> None:
    """Print the parts, the table of efficiencies, and from which bandwidth on it matters."""
    print(
        "| network | collect | critic | alike | gradient step: call, rows, Adam | sent a step | frames |"
    )
    print("|---|---|---|---|---|---|---|")
    for name, p in parts.items():
        ms = [f"{1e3 * t:.1f}" for t in (p.collect, p.values, p.alike)]
        step = ", ".join(f"{1e3 * t:.2f}" for t in (p.call, p.rows, p.adam))
        print(
            f"| {name} | {' ms | '.join(ms)} ms | {p.steps} x ({step}) ms | "
            f"{p.gradient_bytes / 1e6:.2f} MB | {p.frame_bytes / 1e6:.1f} MB |"
        )
    print(
        f"\nshared memory: {1e6 * memory.latency_s:.0f} us + bytes / {memory.bytes_per_s / 1e9:.1f} GB/s"
    )
    for name, p in parts.items():
        for ranks in (2, 4):
            measured = exchange(ranks, p.gradient_bytes)
            expected = sum_s(memory, ranks, p.gradient_bytes)
            print(
                f"  {name}, {ranks} ranks: {1e6 * measured:.0f} us for {p.gradient_bytes / 1e6:.2f} MB, "
                f"by the model {1e6 * expected:.0f} us"
            )
    print(f"\n| efficiency | interconnect | {' | '.join(f'{n} ranks' for n in _RANKS)} |")
    print("|---" * (2 + len(_RANKS)) + "|")
    for name, p in parts.items():
        for network in (memory, *_NETWORKS):
            cells = (f"{p.efficiency(n, network):.2f}" for n in _RANKS)
            print(f"| {name} | {network.name} | {' | '.join(cells)} |")
    print()
    for name, p in parts.items():
        least = (f"{8e-9 * p.least_bytes_per_s(n):.1f} Gbit/s by {n} ranks" for n in (2, 8))
        print(f"{name}: gradients take 4 % of a step at {', '.join(least)}")
    for name, ratio in zip(parts, options.measured, strict=False):
        expected = 2 * parts[name].efficiency(2, memory)
        print(f"{name}: two ranks {expected:.2f} x by the model, {ratio} x measured")


def main() -> int:
    """Measure and print."""
    arguments = parser(__doc__, repeats=5)
    arguments.add_argument("--sizes", nargs="+", default=["64-64", "256-256", "512-512-512"])
    arguments.add_argument(
        "--measured", nargs="*", type=float, default=[], help="ratios of two ranks"
    )
    options = arguments.parse_args()
    memory = shared_memory()
    report({sizes: measure(sizes, options.repeats) for sizes in options.sizes}, memory, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
