"""What `navrl replay` tells and writes of air combat."""

from pathlib import Path
from typing import Any

from navrl.storage.json_files import write_atomically
from navrl.view.acmi import acmi
from navrl.view.fight import fight_page, outcome
from navrl.view.film import write_mp4, write_png
from navrl.view.playing import Act
from navrl.view.recording import play_episodes, recording
from navrl.view.spacetime import drawing


class CombatReplay:
    """Fights, of which a file holds one."""

    outcomes = ("win", "loss", "draw")  # for the policy's side
    files = ("acmi", "png", "mp4")
    shows_all = False

    def __init__(self, env: Any, policy: Act, *, first: int, pilot: str, setting: str) -> None:
        self.title = f"{pilot} against {setting}"
        self._pilots = (pilot, setting)
        self._fights = [recording(env.params, states) for states in play_episodes(env, policy)]
        self.endings = [{0: "win", 1: "loss", None: "draw"}[f.winner] for f in self._fights]

    def told(self, index: int) -> str:
        """Who won, in words."""
        return outcome(self._fights[index])

    def page(self, index: int, *, seed: str, episode: str) -> str:
        """The HTML of one fight."""
        return fight_page(
            self._fights[index],
            drawing,
            title=self.title,
            subtitle=f"{seed}, {episode}",
            pilots=self._pilots,
        )

    def write(self, kind: str, index: int, path: Path, *, details: str) -> None:
        """One of `files`."""
        fight, title = self._fights[index], f"{self.title}, {details}"
        if kind == "acmi":
            write_atomically(path, acmi(fight, title=title))
        else:
            write = {"png": write_png, "mp4": write_mp4}[kind]
            write(fight, path, title=title, pilots=self._pilots)
