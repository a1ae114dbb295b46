"""Pages of the site beside those in docs/: README, reference, every option, the notebook, linked source."""

import base64
import functools
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import griffe
import yaml
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
IN_ROOT = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
}
NOTEBOOK = "docs/first_steps.ipynb"
REFERENCE = {  # page: title and what it describes; `name = place` where users write another name
    "python": (
        "Python interface",
        *("navrl.train = navrl.api.training.train", "navrl.Result = navrl.api.training.Result"),
        *("navrl.evaluate = navrl.api.training.evaluate", "navrl.api.training.Record"),
        *("navrl.load = navrl.api.policies.load", "navrl.Policy = navrl.api.policies.Policy"),
        "navrl.make = navrl.api.training.make",
        *("navrl.Run = navrl.api.runs.Run", "navrl.api.runs.Checkpoint"),
    ),
    "contracts": ("Protocols of all parts", "navrl.contracts"),
    "worlds": (
        "What worlds are made of",
        *("navrl.envs.core.env", "navrl.envs.core.rewards", "navrl.envs.core.random"),
        *("navrl.envs.core.specs", "navrl.envs.core.shapes"),
    ),
    "agents": (
        "Agents",
        *("navrl.agents.ppo.agent.PPO", "navrl.agents.hmasd.agent.HMASD"),
    ),
    "export": (
        "Our worlds in other libraries",
        *("navrl.export.gymnasium", "navrl.export.pettingzoo", "navrl.export.stable_baselines3"),
    ),
}
LINK = re.compile(r"(\]\()([^)#\s:]+)(#[^)\s]*)?(\))")


class Comments(griffe.Extension):
    """Documents an attribute by the comment behind it."""

    def on_attribute_instance(self, *, attr: griffe.Attribute, **_: Any) -> None:
        """Take the comment for a docstring."""
        if attr.docstring is None and isinstance(attr.filepath, Path) and attr.lineno:
            line = attr.filepath.read_text(encoding="utf-8").splitlines()[attr.lineno - 1]
            comment = line.partition("  # ")[2]
            if comment and not comment.startswith(("noqa", "type:")):
                attr.docstring = griffe.Docstring(comment, parent=attr)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made here."""

    def add(uri: str, content: str | bytes, **options: InclusionLevel) -> None:
        if files.get_file_from_path(uri) is None:
            files.append(File.generated(config, uri, content=content, **options))

    for name, uri in IN_ROOT.items():
        add(uri, (ROOT / name).read_text(encoding="utf-8"))
    for name, (title, *places) in REFERENCE.items():
        add(f"reference/{name}.md", "\n\n".join([f"# {title}", *map(described, places)]))
    add("options.md", options_page())
    text, pictures = notebook_page(ROOT / NOTEBOOK)
    add("first_steps.md", text)
    for name, picture in pictures.items():
        add(name, picture)
    for asset in ("iframe-worker.js", "site.css"):
        add(f"assets/{asset}", (ROOT / "docs/site" / asset).read_text(encoding="utf-8"))
    for path in linked_source(files):
        add(f"source/{path}.md", source_page(path), inclusion=InclusionLevel.NOT_IN_NAV)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links to files of the repository into links to pages of the site."""
    del config, files
    return LINK.sub(functools.partial(relinked, page.file.src_uri), markdown)


def origin(uri: str) -> str:
    """Return the file of the repository that a page is made of."""
    of_root = {page: name for name, page in IN_ROOT.items()}
    return of_root.get(uri, f"docs/{uri}")


def relinked(uri: str, link: re.Match[str]) -> str:
    """Return the link of a page with the place of its target in the site."""
    path = os.path.normpath(os.path.join(os.path.dirname(origin(uri)), link[2]))
    if path == NOTEBOOK:
        place = "first_steps.md"
    elif path in IN_ROOT:
        place = IN_ROOT[path]
    elif path.startswith("docs/"):
        place = path.removeprefix("docs/")
    else:
        place = f"source/{path}.md"
    relative = os.path.relpath(place, os.path.dirname(uri) or ".")
    return f"{link[1]}{relative}{link[3] or ''}{link[4]}"


def linked_source(files: Files) -> set[str]:
    """Return the files and folders outside of docs/ that pages link to."""
    found = set()
    for file in files.documentation_pages():
        folder = os.path.dirname(origin(file.src_uri))
        targets = (
            os.path.normpath(os.path.join(folder, m[2])) for m in LINK.finditer(file.content_string)
        )
        found |= {
            path for path in targets if (ROOT / path).exists() and not path.startswith("docs")
        }
    return found - {*IN_ROOT}


def source_page(path: str) -> str:
    """Return a file as a page, or the names in a folder."""
    place = ROOT / path
    if place.is_dir():
        text = "\n".join(
            sorted(p.name for p in place.iterdir() if not p.name.startswith(("_", ".")))
        )
    else:
        text = place.read_text(encoding="utf-8")
    kind = place.suffix.removeprefix(".") or "text"
    return f"---\nsearch: {{exclude: true}}\n---\n# {path}\n\n`````{kind}\n{text}\n`````\n"


def described(place: str) -> str:
    """Return mkdocstrings' directive for an object, under the name that users write."""
    name, _, path = place.rpartition(" = ")
    return f"::: {path}" + (f"\n    options: {{heading: {name}}}" if name else "")


def notebook_page(path: Path) -> tuple[str, dict[str, bytes]]:
    """Return an executed notebook as Markdown, and its pictures."""
    parts, pictures = [], {}
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            data = output.get("data", {})
            if "image/png" in data:
                name = f"first_steps/{len(pictures)}.png"
                pictures[name] = base64.b64decode(data["image/png"])
                parts.append(f"![]({name})")
            elif "text/html" in data:
                parts.append("".join(data["text/html"]))
            else:
                parts.append(f"```text\n{''.join(output.get('text') or data['text/plain'])}\n```")
    return "\n\n".join(parts), pictures


def options_page() -> str:
    """Return every option of conf/ with its default and its comment."""
    conf = ROOT / "conf"
    parts = [
        "# Options",
        "All that a command line can choose (`group=option`) or change (`key=value`), from conf/.",
        "## navrl train",
        option_table(conf / "train.yaml", ""),
        "## navrl evaluate",
        option_table(conf / "evaluate.yaml", ""),
    ]
    for group in sorted(p for p in conf.iterdir() if p.is_dir() and p.name != "hydra"):
        parts.append(f"## {group.name}=")
        for file in sorted(group.rglob("*.yaml")):
            name = file.relative_to(group).with_suffix("")
            parts += [f"### {group.name}={name}", option_table(file, group.name)]
    return "\n\n".join(parts)


def option_table(file: Path, group: str) -> str:
    """Return the opening comment and the table of one file of conf/."""
    text = file.read_text(encoding="utf-8")
    lines = text.splitlines()
    opening = [line.removeprefix("# ") for line in lines if re.match(r"# (?!@package)", line)]
    prefix = "" if "@package _global_" in lines[0] or not group else f"{group}."
    node = yaml.compose(text)
    rows = (
        [f"| `{k}` | {cell(v)} | {c} |" for k, v, c in options(node, prefix, lines)] if node else []
    )
    table = ["| option | default | |", "|---|---|---|", *rows] if rows else []
    return "\n".join([*(escaped(line) + "  " for line in opening), "", *table])


def options(
    node: yaml.MappingNode, prefix: str, lines: list[str]
) -> Iterator[tuple[str, str, str]]:
    """Yield key, value and comment of every option below a node."""
    for key, value in node.value:
        if key.value == "defaults":
            yield from choices(value, lines)
        if key.value in ("_target_", "_partial_", "defaults", "hydra"):
            continue
        comment = lines[value.end_mark.line if not nested(value) else key.start_mark.line]
        comment = escaped(comment.partition("  # ")[2])
        if nested(value):
            if comment:
                yield f"{prefix}{key.value}.*", "", comment
            yield from options(value, f"{prefix}{key.value}.", lines)
        else:
            source = value.start_mark.buffer[value.start_mark.pointer : value.end_mark.pointer]
            yield f"{prefix}{key.value}", source, comment


def choices(node: yaml.SequenceNode, lines: list[str]) -> Iterator[tuple[str, str, str]]:
    """Yield group, option and comment of every default that the command line may choose again."""
    for item in node.value:
        if isinstance(item, yaml.MappingNode) and not item.value[0][0].value.startswith("override"):
            group, option = item.value[0]
            comment = escaped(lines[item.start_mark.line].partition("  # ")[2])
            yield f"{group.value.removeprefix('/').partition('@')[0]}=", option.value, comment


def nested(node: yaml.Node) -> bool:
    """Return whether the options of a mapping stand on lines of their own."""
    return isinstance(node, yaml.MappingNode) and not node.flow_style


def cell(text: str) -> str:
    """Return a value as code in a table."""
    return f"`{escaped(text)}`" if text else ""


def escaped(text: str) -> str:
    """Return text for a table: no column ends in it, no name is taken for HTML."""
    return text.replace("|", "\\|").replace("<", "&lt;")
