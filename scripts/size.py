"""Lines per file, as a table; fails over 300 lines in a file or 60 in a function."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

MAX_FILE_LINES = 300
MAX_FUNCTION_LINES = 60
ROOT = Path(__file__).resolve().parents[1]


def too_long(path: Path, text: str) -> Iterator[str]:
    """One sentence per limit that the file breaks."""
    lines = len(text.splitlines())
    if lines > MAX_FILE_LINES:
        yield f"{path} has {lines} lines; {MAX_FILE_LINES} are allowed: split it by concept"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > MAX_FUNCTION_LINES:
                name = f"{path}:{node.lineno} {node.name}"
                yield f"{name} has {length} lines; {MAX_FUNCTION_LINES} are allowed"


def main() -> int:
    """Print the table; 1 if a limit is broken."""
    complaints: list[str] = []
    for folder in ("navrl", "scripts", "tests"):
        total = 0
        for file in sorted((ROOT / folder).rglob("*.py")):
            text = file.read_text(encoding="utf-8")
            total += len(text.splitlines())
            print(f"{len(text.splitlines()):6d}  {file.relative_to(ROOT)}")
            complaints += too_long(file.relative_to(ROOT), text)
        print(f"{total:6d}  {folder} in all\n")
    print("\n".join(complaints))
    return bool(complaints)


sys.exit(main())
