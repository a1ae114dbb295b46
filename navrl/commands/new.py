"""`navrl new`: write a small package of your own with a part that trains, or add a part to one."""

from __future__ import annotations

import argparse
import importlib.util
import keyword
import os
import re
import sys
import tomllib
from collections.abc import Iterator, Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import NamedTuple

from navrl.config.checks import ConfigError, require
from navrl.config.command import run_plain
from navrl.config.compose import group_options
from navrl.config.plugins import GROUP
from navrl.config.quoting import shell_line

_TEMPLATES = files("navrl.commands") / "templates"
_PROJECT = "package"  # the template of the package around the parts
_WORD = re.compile(r"[a-z][a-z0-9_]*")
_OF_YAML = {"false", "inf", "nan", "no", "null", "off", "on", "true", "yes"}  # read as values


class Kind(NamedTuple):
    """A kind of part: its description, and the words of the commands that use it."""

    help: str
    use: tuple[str, ...] = ("{kind}={name}",)  # of navrl train
    evaluate: tuple[str, ...] = ("checkpoint=latest", "num_episodes=20")
    check: tuple[str, ...] = ()  # the command that comes first


_CHECK = ("check-env", "{name}")
KINDS = {
    "reward": Kind("a reward term of air combat"),
    "opponent": Kind("an opponent of air combat"),
    "observation": Kind("what an aircraft observes"),
    "scenario": Kind("how an episode of air combat begins"),
    "planner": Kind(
        "a planner of drone navigation, which flies without learning",
        use=(),
        evaluate=("checkpoint=scripted:{name}", "env=navigation", "num_episodes=20"),
    ),
    "agent": Kind("a learning algorithm"),
    "env": Kind("a world of one agent; with --team, of a team", check=_CHECK),
}
_TEAM = Kind("a world of a team", use=("env={name}", "agent=mappo"), check=_CHECK)

_KINDS_HELP = "\n".join(f"  {name:<12} {kind.help}" for name, kind in KINDS.items())
_EXAMPLES = f"""kinds:
{_KINDS_HELP}

examples:
  navrl new opponent weave              a new folder weave with the package weave and the part weave
  navrl new reward fast --into mylab    the part fast in the package mylab, which is made if there is none
  navrl new scenario duel --into .      one more part for the package of this folder
  navrl new env reach                   a world, and with --team one of several agents

A part is a file of Python, a file of YAML that names it, and a test. Nothing is overwritten."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `navrl new`."""
    parser = argparse.ArgumentParser(
        prog="navrl new",
        description="Write a small package of your own with a part that trains, or add a part to one.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("kind", metavar="KIND", choices=KINDS, help="one of the kinds below")
    parser.add_argument("name", metavar="NAME", help="of the part: kind=NAME chooses it")
    parser.add_argument(
        "--into",
        type=Path,
        metavar="DIR",
        help="the folder of the package, new or one that navrl new has made; default: NAME",
    )
    parser.add_argument("--team", action="store_true", help="env: a world of several agents")
    return run_plain(parser, _write, arguments)


def _write(options: argparse.Namespace) -> None:
    """Write the files of the part, those of its package if that is new, and print what to do next."""
    kind, name, team = options.kind, options.name, options.team
    require(not team or kind == "env", "--team", f"with {kind}", "it with env only")
    template = _TEMPLATES / ("team" if team else kind)
    _check_part(template, name)
    folder: Path = options.into or Path(name)
    exists = os.path.lexists(folder)
    package = _package_in(folder) if exists else folder.name
    if not exists:
        _check_package(package, "NAME" if options.into is None else "--into")
    chosen = _TEAM if team else KINDS[kind]
    commands = _commands(chosen, f"plugins=[{package}]", {"kind": kind, "name": name})
    words = {"mylab": package, "mypart": name, "MyPart": _class_name(name)}
    words["COMMANDS"] = "\n".join(commands)
    written = dict(_files(template, words))
    if not exists:
        written |= _files(_TEMPLATES / _PROJECT, words)
    for path in written:
        if os.path.lexists(folder / path):
            raise ConfigError(f"{folder / path} exists; expected a name that is free; change NAME")
    for path, text in written.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        with (folder / path).open("x", encoding="utf-8") as file:
            file.write(text)
    enter = [] if folder.resolve() == Path.cwd() else [shell_line(["cd", str(folder)])]
    lines = ["wrote:", *(f"  {folder / path}" for path in sorted(written))]
    lines += ["next:", *(f"  {line}" for line in [*enter, *commands])]
    sys.stdout.write("\n".join(lines) + "\n")


def _check_part(template: Traversable, name: str) -> None:
    """Raise ConfigError unless the name is a word for Python and Hydra, and no option of navrl."""
    _check_word("NAME", name)
    for group in sorted(folder.name for folder in (template / "mylab" / "conf").iterdir()):
        ours = group_options(group)  # which Hydra would take, as the reward of a world too
        expected = f"a name that conf/{group} does not have ({', '.join(ours)})"
        require(name not in ours, "NAME", name, expected)


def _check_package(name: str, option: str) -> None:
    """Raise ConfigError unless Python can have a package of this name beside all that is installed."""
    _check_word(option, name)
    taken = name in sys.stdlib_module_names or importlib.util.find_spec(name) is not None
    expected = (
        "a name that no module of Python or of an installed package has, since it would hide that"
    )
    require(not taken, option, name, expected)


def _check_word(option: str, name: str) -> None:
    fits = _WORD.fullmatch(name) and not keyword.iskeyword(name) and name not in _OF_YAML
    expected = (
        "a word such as fast_climb: lower-case letters, digits and _, no keyword of Python or YAML"
    )
    require(bool(fits), option, name, expected)


def _package_in(folder: Path) -> str:
    """Return the package of an existing folder, as its pyproject.toml names it."""
    try:
        text = (folder / "pyproject.toml").read_text(encoding="utf-8")
        packages = [*tomllib.loads(text)["project"]["entry-points"][GROUP].values()]
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        packages = []
    for package in packages:
        if (folder / str(package) / "__init__.py").is_file():
            return str(package)
    raise ConfigError(
        f"{folder} exists and holds no package of navrl new (a pyproject.toml with the entry point {GROUP}); "
        "expected such a package or a folder that does not exist; change --into"
    )


def _class_name(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def _commands(kind: Kind, plugin: str, names: dict[str, str]) -> list[str]:
    """Return what to run next, in the folder of the package."""
    lines = [[*kind.check, plugin]] if kind.check else []
    lines += [["train", plugin, *kind.use, "experiment=debug"]] if kind.use else []
    lines += [["evaluate", plugin, *kind.evaluate]]
    words = [["navrl", *(word.format(**names) for word in line)] for line in lines]
    return [*map(shell_line, words), "python -m pytest"]


def _files(
    template: Traversable, words: dict[str, str], place: str = ""
) -> Iterator[tuple[str, str]]:
    """Yield path and text of every file of a template, with these words in the places of its own."""
    for item in template.iterdir():
        path = f"{place}{_with(item.name, words)}"
        if item.is_dir():
            yield from _files(item, words, f"{path}/")
        elif item.name.endswith((".md", ".py", ".toml", ".typed", ".yaml")):
            yield path, _with(item.read_text(encoding="utf-8"), words)


def _with(text: str, words: dict[str, str]) -> str:
    return re.sub("|".join(words), lambda match: words[match[0]], text)
