"""Two hosts, each a network namespace with an address of its own, train one run until the cable is cut."""

import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

HOSTS = {"navrl-a": ("veth-a", "10.77.0.1"), "navrl-b": ("veth-b", "10.77.0.2")}
ROOT = Path(__file__).resolve().parents[2]
WORDS = (
    *("experiment=debug", "logger=none", "console=none", "eval_opponents=[]", "num_envs=8"),
    *("env.sim.tick_s=0.25", "env.sim.time_limit_s=12", "total_frames=10000000"),
)


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True)


@pytest.fixture
def hosts():
    """Two namespaces that a cable joins."""
    try:
        ip("netns", "add", "navrl-a")
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("network namespaces cannot be made here")
    try:
        ip("netns", "add", "navrl-b")
        ip(
            "link",
            "add",
            "veth-a",
            "netns",
            "navrl-a",
            "type",
            "veth",
            "peer",
            "veth-b",
            "netns",
            "navrl-b",
        )
        for host, (cable, address) in HOSTS.items():
            ip("-n", host, "addr", "add", f"{address}/24", "dev", cable)
            ip("-n", host, "link", "set", cable, "up")
            ip("-n", host, "link", "set", "lo", "up")
        yield HOSTS
    finally:
        for host in HOSTS:
            with contextlib.suppress(subprocess.CalledProcessError):
                ip("netns", "del", host)


def start(host, cable, address, node, folder):
    torchrun = ["-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=1"]
    meet = ["--rdzv-backend=c10d", "--rdzv-endpoint=10.77.0.1:29400", f"--local-addr={address}"]
    meet += [f"--rdzv-conf=is_host={str(node == 0).lower()}"]
    run = ["-m", "navrl.train", *WORDS, f"hydra.run.dir={folder / 'run'}"]
    return subprocess.Popen(
        ["ip", "netns", "exec", host, sys.executable, *torchrun, *meet, *run],
        cwd=ROOT,
        env={**os.environ, "GLOO_SOCKET_IFNAME": cable, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=(folder / f"{host}.txt").open("w"),
    )


def training(host):
    """The processes of the host that train, without torchrun that has started them."""
    found = subprocess.run(
        ["ip", "netns", "pids", host], capture_output=True, text=True, check=True
    )
    return [pid for pid in found.stdout.split() if b"\0RANK=" in environment(pid)]


def environment(pid):
    with contextlib.suppress(OSError):  # it has ended
        return Path("/proc", pid, "environ").read_bytes()
    return b""


def rows(folder):
    path = folder / "run" / "metrics.jsonl"
    return [json.loads(row) for row in path.read_text().splitlines()] if path.exists() else []


@pytest.mark.commands
@pytest.mark.timeout(180)
def test_two_hosts_train_together_and_end_when_they_are_cut_off(hosts, tmp_path):
    started = [
        start(host, *place, node, tmp_path) for node, (host, place) in enumerate(hosts.items())
    ]
    try:
        deadline = time.monotonic() + 90.0
        while len(rows(tmp_path)) < 3 and all(each.poll() is None for each in started):
            assert time.monotonic() < deadline
            time.sleep(0.2)
        printed = "\n".join((tmp_path / f"{host}.txt").read_text() for host in hosts)
        assert len(rows(tmp_path)) >= 3, printed
        assert all(row["frames"] == 64 * row["iteration"] for row in rows(tmp_path))
        ip("-n", "navrl-b", "link", "set", "veth-b", "down")
        deadline = time.monotonic() + 30.0
        while any(map(training, hosts)):  # torchrun itself, where it is cut off, waits longer
            assert time.monotonic() < deadline, [training(host) for host in hosts]
            time.sleep(0.2)
        status = json.loads((tmp_path / "run" / "status.json").read_text())
        assert status["state"] == "failed"
        assert "has not answered for 20 s" in status["reason"] or "is gone" in status["reason"]
    finally:
        for each in started:
            each.kill()
            each.wait()
