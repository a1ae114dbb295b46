"""Recorded games that are flown again: the same seed, configuration and actions give the same game."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from tensordict import TensorDict, TensorDictBase

from navrl.config.checks import ConfigError, require_whole
from navrl.config.compose import from_json
from navrl.config.plugins import KEY, allow_plugins
from navrl.live.play.choice import pilot_label
from navrl.live.play.record import CONFIG, FILE
from navrl.run.stored_files import files_read, files_typed, repeated, require_typed
from navrl.storage.files import UnsafePath, read_json
from navrl.storage.rollouts import load_rollout, rollout_files

_WORLDS = ("navrl.envs.CombatEnv", "navrl.envs.NavigationEnv")
_CLOSE = 1e-3  # of an observation: another processor rounds otherwise


class RecordedGame(NamedTuple):
    """A game of `navrl play` on disk."""

    folder: Path
    config: Any
    seed: int
    steps: TensorDict  # (1, T): what the player's side saw and did
    pilot: str
    opponent: str | None  # None: a drone has none


def folder_of_game(place: Path) -> Path | None:
    """Return the folder of the game that a path names; None if it names something else."""
    folder = place.parent if place.name == FILE else place
    return folder if (folder / FILE).is_file() else None


def read_game(folder: Path, overrides: Sequence[str]) -> RecordedGame:
    """Return a recorded game, whose files may be a stranger's; overrides repeat the files that it reads."""
    rollouts = folder / "rollouts"
    if rollouts.is_symlink():
        raise UnsafePath(rollouts, "a link", "a folder")
    try:
        facts, stored = read_json(folder / FILE), read_json(folder / CONFIG)
        seed, (pilot, opponent) = facts["seed"], _names(facts)
        world, _ = (stored["env"][name] for name in ("_target_", "name"))
        config = from_json({"plugins": [], **stored, "device": "cpu"})
        (file,) = rollout_files(rollouts)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"{folder} cannot be read ({error}); expected a game that navrl play has recorded; name another"
        ) from error
    require_whole(f"seed in {folder / FILE}", seed, 0, 2**63 - 1)
    if world not in _WORLDS:
        raise ConfigError(f"{folder} holds no fight and no flight of a drone; name another game")
    _check_files(config, overrides)
    return RecordedGame(folder, config, seed, load_rollout(file), pilot, opponent)


def _names(facts: Mapping[str, Any]) -> tuple[str, str | None]:
    """Return who flew and the opponent."""
    choice = facts.get("choice")
    if choice is None:
        return str(facts["pilot"]), None
    flew = facts["pilot"] if choice["own"] is None else pilot_label(choice["own"])
    return str(flew), pilot_label(choice["opponent"])


def _check_files(config: Any, overrides: Sequence[str]) -> None:
    """Raise ConfigError unless the overrides name exactly files and plugins of the stored configuration."""
    allow_plugins(overrides)
    keys = {KEY, *files_read(config).values()}
    for word in overrides:
        if word.lstrip("+").partition("=")[0] not in keys:
            raise ConfigError(f"{word}: a recorded game is shown as it was flown; leave it out")
    require_typed(config, files_typed(overrides), repeated(config, {}).evaluate)


class RecordedActions:
    """The actions of a recorded game, one for each decision; None after the last one."""

    def __init__(self, game: RecordedGame, env: Any) -> None:
        self._folder, self._key = game.folder, env.action_key
        self._keys = set(game.steps.keys(True, True))
        self._spec = env.full_action_spec[self._key]
        self._steps = game.steps.unbind(1)
        self._decision = 0
        if self._key not in self._keys:
            raise ConfigError(f"{self._folder} holds no actions of this env; name another game")

    def __call__(self, tensordict: TensorDictBase) -> TensorDictBase | None:
        """Return the tensordict with the action; raise ConfigError where the recorded game differs."""
        if self._decision == len(self._steps):
            return None
        stored = self._steps[self._decision]
        action = stored.get(self._key)
        if not self._spec.is_in(action) or not self._agrees(stored, tensordict):
            raise ConfigError(
                f"{self._folder} was recorded otherwise from decision {self._decision} on than the simulator "
                "flies it here; expected the game of this version of navrl with its policies as they were; "
                "use that version, or fly again"
            )
        self._decision += 1
        return tensordict.set(self._key, action)

    def _agrees(self, stored: TensorDictBase, now: TensorDictBase) -> bool:
        """Return whether both have the same observation, as far as processors round alike."""
        for key in now.keys(True, True):
            if key in self._keys and key != self._key:
                there, here = stored.get(key), now.get(key)
                same = there.shape == here.shape and there.dtype == here.dtype
                if not same or not torch.allclose(there.double(), here.double(), _CLOSE, _CLOSE):
                    return False
        return True
