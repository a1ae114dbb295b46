"""The house: few files in the root, plain docstrings, targets by package, no crumbs."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LOOSE = {
    *("__init__.py", "__main__.py", "cli.py", "contracts.py", "evaluate.py", "py.typed", "train.py")
}
IN_ROOT = {
    *("LICENSE", "Makefile", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"),
    *("CITATION.cff", "constraints.txt"),
    *("pyproject.toml", "conf", "docs", "navrl", "release", "scripts", "tests"),
}
# A file of a world that users extend, or a simulator in one file: its module is part of the target.
EXTENDED = {"actions", "observation", "observations", "rewards", "scenarios", "sim"}
OPENING = re.compile(r"(what|who|whom|whose|of|how|where|whether)\b", re.IGNORECASE)
MOST_ADDRESSED = 0.02  # the share of docstrings that may open with one of these words


def test_nothing_else_is_loose_in_the_root():
    package = {path.name for path in (ROOT / "navrl").iterdir() if path.is_file()}
    assert package <= LOOSE
    tracked = {path.name for path in ROOT.iterdir() if not path.name.startswith(".")}
    made = {"build", "dist", "multirun", "outputs", "wandb"}
    assert tracked <= IN_ROOT | made


def docstrings(folder):
    """Every docstring of a folder with its place."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for file in sorted((ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, kinds) and (text := ast.get_docstring(node)):
                place = f"{file.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}"
                yield place, text.partition("\n")[0]


@pytest.mark.parametrize("folder", ["navrl"])
def test_docstrings_begin_with_what_the_code_does(folder):
    found = list(docstrings(folder))
    wrong = [f"{place} {text}" for place, text in found if OPENING.match(text)]
    assert len(wrong) <= MOST_ADDRESSED * len(found), "\n".join(wrong)


def targets():
    """Every target of conf/ with its file."""
    for file in sorted((ROOT / "conf").rglob("*.yaml")):
        for name in re.findall(r"_target_: ([\w.]+)", file.read_text(encoding="utf-8")):
            yield file.relative_to(ROOT), name


def test_no_yaml_names_a_private_file():
    private = []
    for file, name in targets():
        module = ROOT / Path(*name.split(".")[:-1])
        if not module.is_dir() and module.name not in EXTENDED:
            private.append(f"{file}: {name}")
    assert not private


def test_train_imports_few_names_of_navrl():
    tree = ast.parse((ROOT / "navrl" / "train.py").read_text(encoding="utf-8"))
    imported = [
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("navrl")
        for alias in node.names
    ]
    assert len(imported) <= 16, imported
