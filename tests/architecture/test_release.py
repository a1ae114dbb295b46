"""What a release is verified with: hashes of every pin, audited pins, a bill of materials."""

import ast
import importlib.metadata
import json
import re
from pathlib import Path

import pytest

import release

ROOT = Path(__file__).resolve().parents[2]
HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})\b")
PINS = dict(re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE))


def normalised(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def hashed(name):
    """Return the version, the marker and the hashes of every package in a file of release/."""
    text = (ROOT / "release" / name).read_text(encoding="utf-8").replace("\\\n", "")
    found = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            package, version, marker = re.match(r"([\w.-]+)==([\w.]+)(.*?)--hash", line).groups()
            found[normalised(package)] = version, marker, HASH.findall(line)
    return found


def test_every_pin_has_hashes_and_nothing_else_is_in_the_list():
    found = hashed("requirements.txt")
    assert {name: version for name, (version, _, _) in found.items()} == {
        normalised(name): version for name, version in PINS.items()
    }, "constraints.txt changed: run `.venv/bin/python scripts/release.py hashes`"
    assert all(not marker.strip() for _, marker, _ in found.values())
    assert all(hashes for _, _, hashes in found.values())


def test_every_package_that_a_pinned_one_needs_is_pinned():
    names = {normalised(name) for name in PINS}
    for name in PINS:
        needed = set(release.requires(importlib.metadata.distribution(name)))
        assert needed <= names, f"{name} needs {needed - names}: add it to constraints.txt"


def test_the_cuda_list_adds_to_the_other_and_is_for_linux():
    found = hashed("requirements-cuda.txt")
    assert found
    assert found.keys().isdisjoint(hashed("requirements.txt"))
    assert all("linux" in marker and hashes for _, marker, hashes in found.values())


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-cuda.txt"])
def test_hash_lists_are_small_and_name_no_address(name):
    text = (ROOT / "release" / name).read_text(encoding="utf-8")
    assert len(text) < 200_000
    assert "://" not in text
    assert len(HASH.findall(text)) == text.count("--hash=")


@pytest.mark.parametrize(
    ("filename", "kept"),
    [
        ("a-1.0.tar.gz", True),
        ("a-1.0-py2.py3-none-any.whl", True),
        ("a-1.0-py3-none-manylinux_2_28_aarch64.whl", True),
        ("a-1.0-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl", True),
        ("a-1.0-cp39-abi3-manylinux_2_28_x86_64.whl", True),
        ("a-1.0-cp314-abi3-manylinux_2_28_x86_64.whl", False),
        ("a-1.0-cp310-cp310-manylinux_2_28_x86_64.whl", False),
        ("a-1.0-cp313-cp313t-manylinux_2_28_x86_64.whl", False),
        ("a-1.0-cp311-cp311-musllinux_1_2_x86_64.whl", False),
        ("a-1.0-cp311-cp311-macosx_14_0_arm64.whl", False),
        ("a-1.0-cp311-cp311-manylinux_2_28_s390x.whl", False),
        ("a-1.0-py2-none-any.whl", False),
    ],
)
def test_hashes_are_of_files_for_linux_and_supported_pythons(filename, kept):
    assert release.on_linux(filename) is kept


@pytest.mark.parametrize(
    ("name", "version", "advisory"),
    [
        ("hydra-core", "1.3.3", "CVE-2026-68508"),
        ("torch", "2.9.1", "CVE-2026-24747"),
        ("torch", "2.5.1", "CVE-2025-32434"),
        ("pillow", "12.2.0", "CVE-2026-59197"),
    ],
)
def test_a_pin_with_an_advisory_is_found(name, version, advisory):
    found, _ = release.known({name: version})
    assert any(line.startswith(f"{name} {version}: {advisory}, ") for line in found)


def test_no_known_advisory_reaches_a_pin():
    found, accepted = release.known({normalised(name): version for name, version in PINS.items()})
    assert not found
    assert all("; accepted: " in line for line in accepted)


def test_the_reason_of_the_accepted_advisory_holds():
    readers = re.compile(
        r"torch\.(jit|export\.load|_inductor\.aoti_load_package)|from torch import .*\bjit\b"
        r"|from torch\.export import .*\bload\b|(import|from) torch\.jit\b.*"
    )
    found = []
    for file in sorted((ROOT / "navrl").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute | ast.Import | ast.ImportFrom):
                text = ast.unparse(node)
                found += [(file.name, text)] * bool(readers.fullmatch(text))
    assert found == [("formats.py", "torch.export.load")]


def test_the_one_reader_of_pt2_files_is_called_where_the_file_was_just_written():
    called = [
        (file.name, text.strip())
        for file in sorted((ROOT / "navrl").rglob("*.py"))
        for text in file.read_text(encoding="utf-8").splitlines()
        if "kind.run(" in text or ("FORMATS[" in text and ".run(" in text)
    ]
    assert [name for name, _ in called] == ["export.py"]
    assert "kind.run(temporary, " in called[0][1]


def answer(**changes):
    """A complete report of the auditor with changed entries."""
    entries = [
        {"name": name, "version": version, "vulns": []} | changes.get(normalised(name), {})
        for name, version in PINS.items()
    ]
    return json.dumps({"dependencies": entries, "fixes": []})


def advisory(name, *aliases):
    return {"vulns": [{"id": name, "aliases": list(aliases), "fix_versions": ["9"]}]}


def test_a_report_counts_only_with_an_answer_for_every_pin():
    assert release.report_of(answer()) == ([], "")
    skipped = {"skip_reason": "not found", "vulns": []}
    assert release.report_of(answer(torch=skipped, rich=skipped)) == (
        [],
        "no answer for rich, torch",
    )
    none = json.dumps({"dependencies": [], "fixes": []})
    assert "no answer for absl-py, alembic, " in release.report_of(none)[1]


def test_a_report_names_advisories_that_are_not_accepted():
    found, missing = release.report_of(answer(rich=advisory("X-1", "CVE-1")))
    assert (found, missing) == ([f"rich {PINS['rich']}: X-1 (fixed in: ['9'])"], "")
    assert release.report_of(answer(torch=advisory("X-2", "CVE-2026-4538"))) == ([], "")


@pytest.mark.parametrize(
    ("live", "need_live", "code", "printed"),
    [
        (([], ""), True, 0, "audit: live, "),
        ((["rich 1: X-1"], ""), False, 1, "rich 1: X-1"),
        (([], "it is away"), False, 0, "NO LIVE AUDIT: it is away"),
        (([], "it is away"), True, 1, "NO LIVE AUDIT: it is away"),
    ],
)
def test_an_audit_says_which_kind_ran(monkeypatch, capsys, live, need_live, code, printed):
    monkeypatch.setattr(release, "ask_live", lambda: live)
    assert release.audit(need_live) == code
    output = capsys.readouterr().out
    assert printed in output
    assert re.search(r"release/advisories.toml, gathered on \d{4}-\d\d-\d\d: 0 found", output)


def test_an_audit_with_a_known_advisory_fails(monkeypatch, capsys):
    monkeypatch.setattr(release, "pins", lambda: {"hydra-core": "1.3.3"})
    monkeypatch.setattr(release, "ask_live", lambda: ([], ""))
    assert release.audit(need_live=False) == 1
    assert "hydra-core 1.3.3: CVE-2026-68508" in capsys.readouterr().out


def test_the_bill_of_materials_lists_every_pin_with_version_licence_and_purl():
    document = release.bill()
    assert (document["bomFormat"], document["specVersion"], document["version"]) == (
        "CycloneDX",
        "1.6",
        1,
    )
    entries = {normalised(entry["name"]): entry for entry in document["components"]}
    assert entries.keys() == {normalised(name) for name in PINS}
    for name, version in PINS.items():
        entry = entries[normalised(name)]
        assert entry["type"] == "library"
        assert entry["version"].partition("+")[0] == version  # a local build of torch has a suffix
        purl = f"pkg:pypi/{normalised(name)}@{entry['version'].replace('+', '%2B')}"
        assert entry["purl"] == entry["bom-ref"] == purl
        for item in entry["licenses"]:
            assert item.get("expression") or item["license"]["name"]


def test_the_bill_of_materials_knows_what_navrl_needs():
    document = release.bill()
    scopes = {entry["name"]: entry["scope"] for entry in document["components"]}
    assert {scopes[name] for name in ("torch", "hydra-core", "PyYAML", "sympy")} == {"required"}
    assert {scopes[name] for name in ("pytest", "ruff", "playwright")} == {"optional"}
    purls = [entry["purl"] for entry in document["components"]]
    navrl = document["metadata"]["component"]["purl"]
    needs = {entry["ref"]: entry["dependsOn"] for entry in document["dependencies"]}
    assert sorted(needs) == sorted([navrl, *purls])
    assert all(set(items) <= set(purls) for items in needs.values())
    core = ("torch", "torchrl", "tensordict", "hydra-core", "omegaconf", "wandb", "lz4", "numpy")
    assert {purl.partition("@")[0] for purl in needs[navrl]} == {
        f"pkg:pypi/{name}" for name in core
    }


def test_the_page_on_security_names_files_that_exist():
    named = re.findall(r"\]\(([^)#:]+)\)", (ROOT / "SECURITY.md").read_text(encoding="utf-8"))
    assert any(name.startswith("tests/hostile/") for name in named)
    assert [name for name in named if not (ROOT / name).exists()] == []
