"""The environment of a run: versions, commit, machine and command line."""

from __future__ import annotations

import contextlib
import importlib.metadata
import platform
import shlex
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

CORE_PACKAGES = ("torch", "torchrl", "tensordict", "hydra-core", "omegaconf", "wandb", "lz4")


def describe_environment(device: str) -> dict[str, Any]:
    """Return versions, commit, machine and command line; no environment variable, hence no secret."""
    import torch  # here, so that `navrl doctor` can also report a torch that does not import

    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: package_version(name) for name in CORE_PACKAGES},
        "git": git_state(Path(__file__).resolve().parents[2]),
        "device": device,
        "device_name": torch.cuda.get_device_name(device) if "cuda" in device else cpu_model(),
        "cpu": cpu_model(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
        "command": shlex.join(sys.orig_argv),
    }


def describe_arithmetic(compiled: Iterable[str]) -> dict[str, str | int]:
    """Return what the last bits of a result depend on besides the program; functions are named."""
    import torch

    return {
        "torch": str(torch.__version__),
        "cpu": cpu_model(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
        "compiled": " and ".join(sorted({*compiled})) or "nothing",
    }


def package_version(name: str) -> str | None:
    """Return the installed version of a distribution, or None if it is absent."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def git_state(root: Path) -> dict[str, Any] | None:
    """Return commit and dirty flag of the checkout at `root`, or None outside of one."""
    if not (root / ".git").exists():  # else git would find some checkout around site-packages
        return None
    commit = _git(root, "rev-parse", "HEAD")
    changes = _git(root, "status", "--porcelain", "--untracked-files=no")
    if commit is None:
        return None
    return {"commit": commit, "dirty": None if changes is None else bool(changes)}


def cpu_model() -> str:
    """Return the name of the processor as the system reports it."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _git(root: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "--no-optional-locks", "-C", str(root), *arguments],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
