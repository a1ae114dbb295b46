"""The documents: links lead somewhere, quoted messages exist, the notebook runs, the site has every page."""

import ast
import re
import tomllib
from pathlib import Path

import nbformat
import pytest
import yaml
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
NOTEBOOK = ROOT / "docs" / "first_steps.ipynb"
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)")


def read(path):
    """The text of a document without its blocks of code."""
    return re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)


def anchors(path):
    """The anchors of a document's headings."""
    titles = re.findall(r"^#+ (.+)$", read(path), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_headings(page):
    dead = []
    for name, anchor in LINK.findall(read(page)):
        target = page.parent / name if name else page
        if "://" in name:
            continue
        if not target.exists() or (anchor and anchor not in anchors(target)):
            dead.append(f"{name}#{anchor}")
    assert dead == []


def sentences():
    """Every text in the code, with ... in place of what is filled in."""
    for file in (ROOT / "navrl").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                parts = (p.value if isinstance(p, ast.Constant) else "..." for p in node.values)
                yield "".join(parts)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield re.sub(r"%s", "...", node.value)


def test_quoted_messages_are_those_of_the_code():
    quoted = re.findall(r"^### `(.+)`$", read(ROOT / "docs" / "faq.md"), re.MULTILINE)
    assert len(quoted) >= 20
    code = "\n".join(re.sub(r"(\.\.\.)+", "...", text) for text in sentences())
    parts = {message: message.strip(". ;,") for message in quoted}
    assert [message for message, text in parts.items() if text not in code] == []


def test_the_site_has_every_page():
    config = (ROOT / "docs" / "site" / "mkdocs.yml").read_text(encoding="utf-8")
    listed = re.findall(r"[\w/]+\.md", config)
    pages = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    assert pages <= {*listed}
    assert len(listed) == len({*listed})


def test_the_citation_names_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()  # what 1.2.0 requires
    assert citation["cff-version"] == "1.2.0"
    assert citation["type"] == "software"
    for name in ("version", "license", "keywords", "authors"):
        assert citation[name] == project[name], name


def test_the_notebook_is_small_and_shows_what_it_did():
    assert NOTEBOOK.stat().st_size <= 300_000
    cells = [c for c in nbformat.read(NOTEBOOK, as_version=4).cells if c.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == [*range(1, len(cells) + 1)]
    pictures = [out for cell in cells for out in cell.outputs if "image/png" in out.get("data", ())]
    assert len(pictures) == 2


@pytest.mark.commands
def test_the_notebook_runs(tmp_path):
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    NotebookClient(notebook, timeout=200, resources={"metadata": {"path": tmp_path}}).execute()
    assert (tmp_path / "replay.html").is_file()
