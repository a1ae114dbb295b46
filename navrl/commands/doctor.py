"""`navrl doctor`: check this installation and print a remedy for every problem."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from navrl.config import compile_cache
from navrl.run.environment import CORE_PACKAGES, cpu_model, package_version

State = Literal["ok", "warn", "error"]

_MARKS = {"ok": "ok", "warn": "note", "error": "WRONG"}
_LEAST_FREE_GB = 2.0
_CHECKOUT = Path(__file__).resolve().parents[2]


class Check(NamedTuple):
    """One line of the table: name, state, finding, and the remedy if there is a problem."""

    name: str
    state: State
    found: str
    remedy: str = ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `navrl doctor`; return 0 if navrl is usable here, 1 if something is wrong."""
    parser = argparse.ArgumentParser(
        prog="navrl doctor",
        description="Check this installation: versions, devices, folders, logging.",
        epilog="examples:\n  navrl doctor\n  navrl doctor --json --outputs /data/outputs",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="print the checks as JSON")
    parser.add_argument(
        "--outputs", type=Path, default=Path("outputs"), help="where runs will be written"
    )
    options = parser.parse_args(arguments)
    checks = examine(options.outputs, _CHECKOUT / "constraints.txt")
    wrong = sum(check.state == "error" for check in checks)
    if options.json:
        report = {"usable": not wrong, "checks": [check._asdict() for check in checks]}
        sys.stdout.write(json.dumps(report, indent=2) + "\n")
    else:
        sys.stdout.write(table(checks))
    return 1 if wrong else 0


def examine(outputs: Path, constraints: Path) -> list[Check]:
    """Run all checks, in the order of the table."""
    return [
        check_python(),
        *check_packages(wanted_versions(constraints)),
        *check_torch(),
        check_bf16(_cpu_flags()),
        check_compiler(),
        check_compile_cache(Path(os.environ[compile_cache.VARIABLE])),
        *check_conf(),
        check_viz(),
        check_disk(outputs),
        check_writable(outputs),
    ]


def table(checks: Sequence[Check]) -> str:
    """Return the checks as aligned lines, each remedy below its line, and a verdict."""
    width = max(len(check.name) for check in checks)
    lines = []
    for check in checks:
        lines.append(f"{_MARKS[check.state]:<5}  {check.name:<{width}}  {check.found}")
        if check.remedy:
            lines.append(f"{'':<5}  {'':<{width}}  -> {check.remedy}")
    wrong = sum(check.state == "error" for check in checks)
    lines.append("navrl is ready" if not wrong else f"{wrong} of {len(checks)} checks are wrong")
    return "\n".join(lines) + "\n"


# ------------------------------------------------------------------ versions


def check_python() -> Check:
    """Check that Python is new enough."""
    good = sys.version_info >= (3, 11)
    remedy = "" if good else "create the environment again with Python 3.11 or newer"
    return Check("python", "ok" if good else "error", platform.python_version(), remedy)


def wanted_versions(constraints: Path) -> dict[str, str]:
    """Return version specifiers by package: the tested set of a checkout, else the package's ranges."""
    if constraints.is_file():
        lines = constraints.read_text(encoding="utf-8").splitlines()
    else:
        try:
            lines = importlib.metadata.requires("navrl") or []
        except importlib.metadata.PackageNotFoundError:
            lines = []
    wanted: dict[str, str] = {}
    for line in lines:
        requirement, _, marker = line.partition("#")[0].partition(";")
        match = re.match(r"\s*([A-Za-z0-9][\w.-]*)\s*(?:\[.*?\])?\s*\(?([^)]*)\)?", requirement)
        if match and "extra" not in marker:
            wanted[_normal(match[1])] = match[2].replace(" ", "")
    return wanted


def check_packages(wanted: Mapping[str, str]) -> list[Check]:
    """Check the version of every core package."""
    checks = []
    for name in CORE_PACKAGES:
        specifier = wanted.get(_normal(name), "")
        version = package_version(name)
        remedy = f"pip install '{name}{specifier}'"
        if version is None:
            checks.append(Check(name, "error", "not installed", remedy))
        elif not satisfies(version, specifier):
            checks.append(Check(name, "error", f"{version}, but navrl needs {specifier}", remedy))
        elif not specifier:
            checks.append(Check(name, "warn", f"{version}, nothing to compare it with"))
        else:
            checks.append(Check(name, "ok", f"{version} ({specifier})"))
    return checks


def satisfies(version: str, specifier: str) -> bool:
    """Return true if the release numbers of `version` satisfy every clause, as in '>=0.14.1,<0.15'."""
    return all(_fulfils(version, clause) for clause in specifier.split(",") if clause)


def _fulfils(version: str, clause: str) -> bool:
    match = re.fullmatch(r"(===?|>=|<=|!=|~=|<|>)\s*([\w.+!-]+?)(\.\*)?", clause.strip())
    if match is None:
        return False
    sign, bound, wildcard = match[1], _release(match[2]), match[3]
    have = _release(version)
    size = len(bound) if wildcard else max(len(have), len(bound))
    have, padded = _padded(have, size), _padded(bound, size)
    if sign == "~=":
        return have >= padded and have[: len(bound) - 1] == bound[:-1]
    return {
        "==": have == padded,
        "===": have == padded,
        "!=": have != padded,
        ">=": have >= padded,
        "<=": have <= padded,
        ">": have > padded,
        "<": have < padded,
    }[sign]


def _release(version: str) -> tuple[int, ...]:
    # 2.13.0+cpu counts as 2.13.0: the build of torch has a line of its own
    digits = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(part) for part in digits[0].split(".")) if digits else ()


def _padded(release: tuple[int, ...], size: int) -> tuple[int, ...]:
    return (release + (0,) * size)[:size]


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


# ------------------------------------------------------------------- machine


def check_torch() -> list[Check]:
    """Check that torch imports, and list the devices."""
    try:
        import torch  # not at the top: a torch that does not import is to be reported
    except (ImportError, OSError) as error:
        remedy = "install torch again with the line in the README for this machine"
        return [Check("torch import", "error", str(error).partition("\n")[0], remedy)]
    from navrl.ranks import cores

    checks = [
        Check("cpu", "ok", f"{cpu_model()}, {cores()} cores, {torch.get_num_threads()} threads"),
        check_ranks(torch.cuda.device_count()),
    ]
    if torch.cuda.is_available():
        for index in range(torch.cuda.device_count()):
            free, total = (size / 2**30 for size in torch.cuda.mem_get_info(index))
            name = torch.cuda.get_device_name(index)
            checks.append(
                Check(f"cuda:{index}", "ok", f"{name}, {free:.1f} of {total:.1f} GiB free")
            )
    elif torch.version.cuda is not None:
        remedy = "update the NVIDIA driver, or train with device=cpu"
        found = f"torch is built for CUDA {torch.version.cuda}, but finds no usable GPU"
        checks.append(Check("gpu", "warn", found, remedy))
    else:
        checks.append(Check("gpu", "ok", "none, training runs on the CPU"))
    return checks


def check_ranks(gpus: int) -> Check:
    """Report by how many processes one run can train here, how they talk, and what would start them."""
    from torch import distributed

    from navrl.ranks import cores, idle_cores, shares_memory

    if not distributed.is_available():
        return Check(
            "ranks", "warn", "1: torch lacks torch.distributed", "install another build of torch"
        )
    places, kind = (gpus, "GPU") if gpus else (cores(), "core")
    if places == 1:
        return Check("ranks", "ok", f"1, there is one {kind}")
    ways = ["shared memory"] if shares_memory() else []
    ways += [name for name in ("gloo", "nccl") if getattr(distributed, f"is_{name}_available")()]
    found = f"ranks=auto trains by {places}, one for each {kind}, through {', '.join(ways)}"
    beside = Path(sys.executable).with_name("torchrun")
    torchrun = shutil.which("torchrun") or (
        str(beside) if beside.is_file() else "python -m torch.distributed.run"
    )
    found += f"; several machines: {torchrun}"
    busy = 0 if gpus else places - idle_cores()
    if busy > 0:
        remedy = f"others use {busy} of {places} cores now; wait for them, or train with ranks=1"
        return Check("ranks", "warn", found, remedy)
    return Check("ranks", "ok", f"{found}; see navrl bench --ranks 1,{places}")


def check_bf16(flags: set[str]) -> Check:
    """Check if the CPU multiplies bfloat16 in hardware."""
    found = sorted(flags & {"amx_bf16", "avx512_bf16"})
    if found:
        return Check("cpu bf16", "ok", f"in hardware ({', '.join(found)})")
    return Check("cpu bf16", "ok", "not in hardware; keep products in float32")


def check_compiler() -> Check:
    """Check that torch.compile can build for the CPU."""
    names = [os.environ.get("CXX", ""), "g++", "c++", "clang++"]
    found = next((path for name in names if name and (path := shutil.which(name))), None)
    if found:
        return Check("c++ compiler", "ok", found)
    remedy = "install g++ (on Debian and Ubuntu: sudo apt-get install -y g++)"
    return Check("c++ compiler", "warn", "none; simulators run eager, which is slower", remedy)


def check_compile_cache(folder: Path) -> Check:
    """Report the folder of compiled code, its size, and whether others could put their own code there."""
    name, chosen = "compile cache", folder != compile_cache.own_folder()
    files = (file for file in folder.rglob("*") if file.is_file() and not file.is_symlink())
    found = f"{folder}, {sum(file.stat().st_size for file in files) / 1e6:.0f} MB"
    found += f", set by {compile_cache.VARIABLE}" if chosen and compile_cache.is_kept() else ""
    remedy = f"set {compile_cache.VARIABLE} to a folder that only you can write to"
    if not compile_cache.is_kept():
        return Check(name, "warn", f"{found}, of this process alone", remedy)
    try:
        compile_cache.require_private(Path(os.path.realpath(folder)))
    except FileNotFoundError:
        return Check(name, "ok", f"{found}, not made yet")
    except PermissionError as error:
        return Check(name, "warn", f"{found}, not private: {error}", remedy)
    return Check(name, "ok", f"{found}, private")


def check_conf() -> list[Check]:
    """Check that conf/ is found, and report the mode of wandb."""
    try:
        # Needs Hydra, whose absence is a line of this table.
        from navrl.config.compose import conf_dir

        conf = conf_dir()
    except (ImportError, OSError) as error:
        remedy = "install navrl again, or set NAVRL_CONF to the conf directory"
        return [Check("conf", "error", str(error).partition("\n")[0], remedy)]
    return [Check("conf", "ok", str(conf)), check_wandb(conf / "logger" / "wandb.yaml")]


def check_wandb(option: Path) -> Check:
    """Report the destination of metrics with logger=wandb."""
    text = option.read_text(encoding="utf-8") if option.is_file() else ""
    match = re.search(r"^mode:\s*(\w+)", text, flags=re.MULTILINE)
    mode = match[1] if match else "unknown"
    notes = {
        "offline": "offline: nothing leaves this machine",
        "online": "online: metrics are sent to the wandb server",
        "disabled": "disabled: nothing is written",
    }
    state: State = "ok" if mode in notes else "warn"
    return Check("wandb mode", state, notes.get(mode, f"no mode found in {option}"))


def check_viz() -> Check:
    """Check that pictures and films can be made."""
    missing = [name for name in ("matplotlib", "imageio-ffmpeg") if package_version(name) is None]
    if not missing:
        return Check("viz extra", "ok", "pictures and films can be made")
    found = f"without {', '.join(missing)} no pictures and films; everything else works"
    return Check("viz extra", "warn", found, "pip install 'navrl[viz]'")


# ------------------------------------------------------------------- folders


def check_disk(outputs: Path) -> Check:
    """Check that the disk has room for a run."""
    free_gb = shutil.disk_usage(_existing(outputs)).free / 1e9
    found = f"{free_gb:.1f} GB free for {outputs}"
    if free_gb >= _LEAST_FREE_GB:
        return Check("disk", "ok", found)
    return Check("disk", "warn", found, "free some space, or choose hydra.run.dir=<folder>")


def check_writable(outputs: Path) -> Check:
    """Check that a file can be created in the folder of runs."""
    place = _existing(outputs)
    try:
        with tempfile.TemporaryFile(dir=place):
            return Check("outputs", "ok", f"{place.resolve()} can be written")
    except OSError as error:
        remedy = "work in a folder you own, or choose hydra.run.dir=<folder>"
        return Check("outputs", "error", f"{place.resolve()}: {error.strerror}", remedy)


def _existing(path: Path) -> Path:
    # the check creates nothing: the nearest existing folder above stands for the path
    absolute = path.absolute()
    return next(place for place in (absolute, *absolute.parents) if place.exists())


def _cpu_flags() -> set[str]:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return set()
    match = re.search(r"^flags\s*:\s*(.*)$", text, flags=re.MULTILINE)
    return set(match[1].split()) if match else set()


if __name__ == "__main__":
    sys.exit(main())
