"""Print the lines of every file; fail over 450 lines in a file, 60 in a function, or on a crumb.

A crumb is a file of navrl below 60 lines with a single importer: it belongs into that importer. One that its
own package exports is none: there every kind of opponent, planner or logger has its file.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

MAX_FILE_LINES = 450
MAX_FUNCTION_LINES = 60
MIN_LINES = 60
ROOT = Path(__file__).resolve().parents[1]

# Small files with one importer that stay, each with its reason.
CRUMBS: dict[str, str] = {
    "navrl/envs/alice_and_bob/env.py": "every world has an env.py, which navrl.envs imports by name",
    "navrl/agents/scripted.py": "policies without learning are looked for beside the agents",
    "navrl/envs/core/packing.py": "the layout of states is an idea of its own, with its own tests",
}


def too_long(path: Path, text: str) -> Iterator[str]:
    """Yield a sentence for every limit that the file breaks."""
    lines = len(text.splitlines())
    if lines > MAX_FILE_LINES:
        yield f"{path} has {lines} lines; {MAX_FILE_LINES} are allowed: split it by concept"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > MAX_FUNCTION_LINES:
                name = f"{path}:{node.lineno} {node.name}"
                yield f"{name} has {length} lines; {MAX_FUNCTION_LINES} are allowed"


def crumbs(root: Path, listed: dict[str, str]) -> Iterator[str]:
    """Yield a sentence for every small file with a single importer that is not listed with a reason."""
    files = {
        _module(file.relative_to(root)): file for file in sorted((root / "navrl").rglob("*.py"))
    }
    importers: dict[str, set[str]] = defaultdict(set)
    for module, file in files.items():
        for name in _imported(file.read_text(encoding="utf-8")):
            if name in files:
                importers[name].add(module)
    for module, file in files.items():
        path = file.relative_to(root).as_posix()
        lines = len(file.read_text(encoding="utf-8").splitlines())
        importers[module].discard(module)
        exported = importers[module] == {module.rpartition(".")[0]}
        single = file.name != "__init__.py" and len(importers[module]) == 1 and not exported
        if single and lines < MIN_LINES and path not in listed:
            (importer,) = importers[module]
            yield f"{path} has {lines} lines and is imported by {importer} only: move it there"


def _module(path: Path) -> str:
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def _imported(text: str) -> Iterator[str]:
    """Yield the modules that a file imports, and the names that may be modules."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def main() -> int:
    """Print the table; return 1 if a limit is broken."""
    complaints: list[str] = []
    for folder in ("navrl", "scripts", "tests"):
        total = 0
        for file in sorted((ROOT / folder).rglob("*.py")):
            text = file.read_text(encoding="utf-8")
            total += len(text.splitlines())
            print(f"{len(text.splitlines()):6d}  {file.relative_to(ROOT)}")
            complaints += too_long(file.relative_to(ROOT), text)
        print(f"{total:6d}  {folder} in all\n")
    complaints += crumbs(ROOT, CRUMBS)
    print("\n".join(complaints))
    return bool(complaints)


if __name__ == "__main__":
    sys.exit(main())
