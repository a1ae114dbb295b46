"""Make and check what a release is verified with: pinned hashes, known advisories, a bill of materials.

python scripts/release.py hashes   # release/requirements*.txt: constraints.txt with the sha256 of every file
python scripts/release.py audit    # constraints.txt against release/advisories.toml and the live service
python scripts/release.py sbom     # dist/navrl-<version>.cdx.json: CycloneDX of the installed packages
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import subprocess
import sys
import tempfile
import tomllib
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name, parse_wheel_filename

ROOT = Path(__file__).resolve().parents[1]
CONSTRAINTS = ROOT / "constraints.txt"
REQUIREMENTS = ROOT / "release" / "requirements.txt"
CUDA = ROOT / "release" / "requirements-cuda.txt"
ADVISORIES = ROOT / "release" / "advisories.toml"
RESOLVER = "uv==0.13.8"
AUDITOR = "pip-audit==2.10.1"
PYTHONS = (11, 12, 13)  # minor versions of Python 3
MACHINES = ("x86_64", "aarch64")


def pins() -> dict[str, str]:
    """Return the version of every package of constraints.txt by its normalised name."""
    lines = CONSTRAINTS.read_text(encoding="utf-8").splitlines()
    wanted = (Requirement(line) for line in lines if line and not line.startswith("#"))
    return {canonicalize_name(item.name): str(item.specifier).removeprefix("==") for item in wanted}


@contextmanager
def installed(requirement: str) -> Iterator[Path]:
    """Yield the folder of commands of a throwaway environment with one tool."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder)
        commands = Path(folder) / "bin"
        pip = [sys.executable, "-m", "pip", "--python", str(commands / "python")]
        install = [*pip, "install", "--quiet", requirement]
        subprocess.run(install, check=True, capture_output=True, text=True)
        yield commands


# ---- hashes ----


def on_linux(filename: str) -> bool:
    """Return whether a file is a source distribution or a wheel for PYTHONS on MACHINES with glibc."""
    if not filename.endswith(".whl"):
        return True
    exact = {f"cp3{minor}" for minor in PYTHONS}
    for tag in parse_wheel_filename(filename)[3]:
        minor = tag.interpreter.removeprefix("cp3")
        stable = tag.abi == "abi3" and minor.isdigit() and int(minor) <= max(PYTHONS)
        interpreter = tag.interpreter == "py3" or stable or tag.abi in exact
        interpreter |= tag.interpreter in exact and tag.abi == "none"
        glibc = tag.platform.startswith("manylinux") and tag.platform.endswith(MACHINES)
        if interpreter and (glibc or tag.platform == "any"):
            return True
    return False


def resolve(uv: Path, given: Path, *options: str) -> list[dict[str, Any]]:
    """Return the packages that a list of requirements means, with every file that the index has."""
    lock = given.with_name("pylock.toml")
    command = [
        str(uv),
        "pip",
        "compile",
        "--quiet",
        "--no-config",
        "--universal",
        "--format",
        "pylock.toml",
    ]
    version = f"3.{min(PYTHONS)}"
    command += ["--python-version", version, "--output-file", str(lock), *options, str(given)]
    subprocess.run(command, check=True)
    packages: list[dict[str, Any]] = tomllib.loads(lock.read_text(encoding="utf-8"))["packages"]
    return packages


def hashed(package: dict[str, Any]) -> str:
    """Return the line of a package with the hashes of its files."""
    files = [*package.get("wheels", []), *([package["sdist"]] if "sdist" in package else [])]
    hashes = sorted(
        file["hashes"]["sha256"] for file in files if on_linux(file["url"].rpartition("/")[2])
    )
    marker = f" ; {package['marker']}" if "marker" in package else ""
    line = f"{package['name']}=={package['version']}{marker}"
    return " \\\n".join([line, *(f"    --hash=sha256:{value}" for value in hashes)])


def hashes() -> int:
    """Write release/requirements.txt, and beside it what the index's torch brings on Linux."""
    pythons = ", ".join(f"3.{minor}" for minor in PYTHONS)
    head = "# Written by scripts/release.py hashes; do not edit.\n"
    head += f"# Files for Linux ({', '.join(MACHINES)}) and Python {pythons}.\n"
    with installed(RESOLVER) as commands, tempfile.TemporaryDirectory() as folder:
        given = Path(folder) / "given.txt"
        given.write_text(CONSTRAINTS.read_text(encoding="utf-8"), encoding="utf-8")
        pinned = resolve(commands / "uv", given, "--no-deps")
        given.write_text(f"torch=={pins()['torch']}\n", encoding="utf-8")
        brought = resolve(commands / "uv", given, "--constraint", str(CONSTRAINTS))
    cuda = [package for package in brought if canonicalize_name(package["name"]) not in pins()]
    for path, packages in ((REQUIREMENTS, pinned), (CUDA, cuda)):
        path.write_text(head + "\n".join(map(hashed, packages)) + "\n", encoding="utf-8")
        print(f"{path.relative_to(ROOT)}: {len(packages)} packages, {path.stat().st_size} bytes")
    return 0


# ---- audit ----


def known(pinned: dict[str, str]) -> tuple[list[str], list[str]]:
    """Return the advisories of the file that reach a pin, and those that are accepted with a reason."""
    open_, accepted = [], []
    for entry in tomllib.loads(ADVISORIES.read_text(encoding="utf-8"))["advisories"]:
        version = pinned.get(entry["package"])
        if version is None or not SpecifierSet(entry["affected"]).contains(
            version, prereleases=True
        ):
            continue
        sentence = f"{entry['package']} {version}: {entry['id']}, {entry['what']}"
        if "accepted" in entry:
            accepted.append(f"{sentence}; accepted: {entry['accepted']}")
        else:
            open_.append(f"{sentence} (affected: {entry['affected']})")
    return open_, accepted


def report_of(text: str) -> tuple[list[str], str]:
    """Return the advisories in a report of the auditor, and why the report is incomplete, or ''."""
    entries = [entry for entry in json.loads(text)["dependencies"] if "skip_reason" not in entry]
    unanswered = pins().keys() - {canonicalize_name(entry["name"]) for entry in entries}
    listed = tomllib.loads(ADVISORIES.read_text(encoding="utf-8"))["advisories"]
    accepted = {entry["id"] for entry in listed if "accepted" in entry}
    found = [
        f"{entry['name']} {entry['version']}: {item['id']} (fixed in: {item['fix_versions']})"
        for entry in entries
        for item in entry["vulns"]
        if accepted.isdisjoint([item["id"], *item["aliases"]])
    ]
    return found, f"no answer for {', '.join(sorted(unanswered))}" if unanswered else ""


def ask_live() -> tuple[list[str], str]:
    """Return the advisories of the live service, and why it did not answer for every pin, or ''."""
    options = ["--requirement", str(CONSTRAINTS), "--no-deps", "--disable-pip", "--format", "json"]
    try:
        with installed(AUDITOR) as commands, tempfile.TemporaryDirectory() as cache:
            # Strict: without it a service that knows no package counts as a success.
            command = [str(commands / "pip-audit"), "--strict", *options, "--cache-dir", cache]
            result = subprocess.run(command, capture_output=True, text=True, check=False)
    except subprocess.CalledProcessError as error:
        return [], f"{AUDITOR} could not be installed: {error.stderr.strip().splitlines()[-1]}"
    if not result.stdout:
        return [], result.stderr.strip().splitlines()[-1].rpartition("ERROR:pip_audit._cli:")[2]
    return report_of(result.stdout)


def audit(need_live: bool) -> int:
    """Print which kinds of audit ran, with the date of their data; return 1 if an advisory reaches a pin."""
    listed = tomllib.loads(ADVISORIES.read_text(encoding="utf-8"))
    found, accepted = known(pins())
    print(
        f"audit: {len(pins())} packages against the {len(listed['advisories'])} advisories of "
        f"release/advisories.toml, gathered on {listed['date']}: {len(found)} found, {len(accepted)} accepted"
    )
    live, missing = ask_live()
    today = datetime.now(UTC).date()
    if missing:
        print(
            f"audit: NO LIVE AUDIT: {missing}. Nothing published after {listed['date']} was checked."
        )
    else:
        print(f"audit: live, {AUDITOR}, data of {today}: {len(live)} found")
    print("\n".join([*accepted, *found, *live]))
    return int(bool(found or live) or (need_live and bool(missing)))


# ---- bill of materials ----


def licences(distribution: importlib.metadata.Distribution) -> list[dict[str, Any]]:
    """Return the licence as the package names it: expression, classifiers, field, or title of its file."""
    metadata = distribution.metadata
    if expression := metadata.get("License-Expression"):
        return [{"expression": expression}]
    classifiers = [
        text for text in metadata.get_all("Classifier", []) if text.startswith("License ::")
    ]
    names = [text.rpartition(" :: ")[2] for text in classifiers]
    names = names or metadata.get("License", "").strip().splitlines()[:1]
    for file in [] if names else distribution.files or []:
        if file.name.upper().startswith("LICENSE") and ".dist-info" in file.parts[0]:
            names += Path(str(file.locate())).read_text(encoding="utf-8").strip().splitlines()[:1]
    if not names:
        raise SystemExit(
            f"{metadata['Name']} names no licence: add its source to licences() in {__file__}"
        )
    return [{"license": {"name": name}} for name in names]


def component(distribution: importlib.metadata.Distribution) -> dict[str, Any]:
    """Return the entry of an installed package."""
    name, version = distribution.metadata["Name"], distribution.version
    purl = f"pkg:pypi/{canonicalize_name(name)}@{quote(version)}"
    entry = {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}
    return entry | {"licenses": licences(distribution)}


def requires(distribution: importlib.metadata.Distribution) -> list[str]:
    """Return the packages that an installed one needs here, without its extras."""
    wanted = [Requirement(text) for text in distribution.requires or []]
    here = [item for item in wanted if item.marker is None or item.marker.evaluate({"extra": ""})]
    return sorted({canonicalize_name(item.name) for item in here})


def bill() -> dict[str, Any]:
    """Return the CycloneDX document: navrl, every pinned package, and who needs whom."""
    try:
        found = {name: importlib.metadata.distribution(name) for name in ("navrl", *pins())}
    except importlib.metadata.PackageNotFoundError as error:
        raise SystemExit(
            f"{error.name} is not installed: run `make setup`, then `make sbom`"
        ) from None
    entries = {name: component(distribution) for name, distribution in found.items()}
    needs = {name: [item for item in requires(found[name]) if item in found] for name in found}
    core, waiting = set(), ["navrl"]
    while waiting:
        name = waiting.pop()
        waiting += [item for item in needs[name] if item not in core]
        core.add(name)
    for name, entry in entries.items():
        entry["scope"] = "required" if name in core else "optional"
    navrl = entries.pop("navrl")
    del navrl["scope"]
    reference = {name: entry["bom-ref"] for name, entry in {"navrl": navrl, **entries}.items()}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": datetime.now(UTC).isoformat(timespec="seconds"),
            "tools": {"components": [{"type": "application", "name": "scripts/release.py"}]},
            "component": navrl,
        },
        "components": list(entries.values()),
        "dependencies": [
            {"ref": reference[name], "dependsOn": [reference[item] for item in needs[name]]}
            for name in reference
        ],
    }


def sbom() -> int:
    """Write the bill of materials to dist/."""
    document = bill()
    path = ROOT / "dist" / f"navrl-{document['metadata']['component']['version']}.cdx.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(f"{path.relative_to(ROOT)}: {len(document['components'])} packages")
    return 0


def main() -> int:
    """Run the command that the user names."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("command", choices=("hashes", "audit", "sbom"))
    parser.add_argument(
        "--live", action="store_true", help="audit: fail if the live service did not answer"
    )
    options = parser.parse_args()
    if options.command == "audit":
        return audit(options.live)
    return hashes() if options.command == "hashes" else sbom()


if __name__ == "__main__":
    sys.exit(main())
