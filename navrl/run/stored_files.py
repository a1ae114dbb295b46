"""Files that a stored configuration would read: none that the command line does not name again.

A checkpoint may come from elsewhere, and its configuration may name any file of this machine.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from omegaconf import DictConfig, OmegaConf

from navrl.config.build import OPTIONS, READ_BY, files_read_by, leaves
from navrl.config.checks import ConfigError
from navrl.config.compose import group_option, groups_and_values, to_plain
from navrl.config.quoting import override, shell_line
from navrl.config.stored import LOCAL
from navrl.storage.find import OUTPUTS, is_shipped
from navrl.storage.info import BEST, LATEST


class Repeated(NamedTuple):
    """The words that name the plugins and files of a run again, on two command lines."""

    evaluate: tuple[str, ...] = ()
    train: tuple[str, ...] = ()


NO_FILES = Repeated()


def files_read(config: Any) -> dict[str, str]:
    """Return every file that building the configuration would read, with the key that names it.

    A policy that comes with navrl is none: everybody has it, and nobody else wrote it.
    """
    plain = {key: to_plain(config[key], resolve=True) for key in config if key not in LOCAL}
    found: dict[str, str] = {}
    for key, file in files_read_by(plain):
        if is_shipped(file):
            continue
        known = found.setdefault(file, key)
        if key.count(".") < known.count("."):  # env.worlds is ${world}
            found[file] = key
    return found


def files_typed(overrides: Sequence[str]) -> list[str]:
    """Return the files that options of navrl train name, themselves or by an option of conf/."""
    groups, values = groups_and_values(overrides)
    arguments = {argument for each in READ_BY.values() for argument in each}
    named = [(key, value) for key, value in values.items() if arguments & set(key.split("."))]
    typed = [str(item) for key, value in named for _, item in leaves(value, key)]
    for group, name in groups.items():
        if group == "env":  # a whole world: files_read of its configuration tells
            continue
        option = group_option(group, name)
        if OmegaConf.is_dict(option):
            typed += [file for _, file in files_read_by(to_plain(option, resolve=False))]
    return typed


def require_typed(config: DictConfig, typed: Iterable[str], words: Sequence[str]) -> None:
    """Raise ConfigError about a file that the configuration would read and that was not typed.

    The file may be typed as latest, best or the run that it is in, too. `words` would name all of them.
    """
    for file, key in files_read(config).items():
        if not any(_means(each, file) for each in typed):
            raise ConfigError(
                f"the stored configuration would read {key} = {file}; expected it to be repeated on the "
                f"command line, because somebody else may have written it; add {shell_line(words)}"
            )


def require_no_files(config: DictConfig) -> None:
    """Raise ConfigError if building the configuration would read a file."""
    for file, key in files_read(config).items():
        raise ConfigError(
            f"the stored configuration would read {key} = {file}; expected one that reads no file; choose "
            "another checkpoint"
        )


def repeated(config: DictConfig, choices: Mapping[str, Any]) -> Repeated:
    """Return the words that name the plugins and files of this configuration.

    navrl train needs the groups of the files too.
    """
    trusted = [f"plugins=[{','.join(config.plugins)}]"] if config.plugins else []
    found = [(key, override(key, file)) for file, key in files_read(config).items()]
    roots = dict.fromkeys(key.partition(".")[0] for key, _ in found)
    options = {group: choices.get(group) for group in ("env", *roots)}
    words = tuple(word for _, word in found)
    # conf/ has no options of worlds from elsewhere.
    added = [f"++{word}" if OPTIONS in key.split(".") else word for key, word in found]
    chosen = [
        f"{group}={option}"
        for group, option in options.items()
        if isinstance(option, str) and option.isidentifier()  # which a file may have made up
    ]
    inbox = OmegaConf.select(config, "collector.path")  # of a stored collector only numbers count
    read = ("collector=folder", override("collector.path", str(inbox))) if inbox else ()
    if not found:
        return Repeated((*trusted,), (*trusted, *read))
    return Repeated((*trusted, *words), (*trusted, *chosen, *added, *read))


def _means(typed: str, file: str) -> bool:
    """Return whether the reference typed by the user may have meant this file."""
    if typed == file:
        return True
    places = [OUTPUTS] if typed in (LATEST, BEST) else [Path(typed), OUTPUTS / typed]
    inside = Path(os.path.realpath(file))
    return any(
        inside.is_relative_to(os.path.realpath(place)) for place in places if os.path.exists(place)
    )
