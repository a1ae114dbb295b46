"""What `navrl replay` tells and writes of drone navigation."""

from pathlib import Path
from typing import Any

from navrl.view.navigation_page import navigation_page, outcome
from navrl.view.navigation_picture import write_mp4, write_png
from navrl.view.navigation_recording import play_trips
from navrl.view.playing import Act


class NavigationReplay:
    """Trips, of which a file holds all; it opens with one of them."""

    outcomes = (
        *("success", "collision", "collision_static", "collision_moving"),
        *("outside", "timeout"),
    )
    files = ("png", "mp4")
    shows_all = True

    def __init__(self, env: Any, policy: Act, *, first: int, pilot: str, setting: str) -> None:
        self.title = f"{pilot} in {setting}"
        self._recorded = play_trips(env, policy, first=first)
        self.endings = [trip.outcome for trip in self._recorded.trips]

    def told(self, index: int) -> str:
        """What became of a trip, in words."""
        return outcome(self._recorded.trips[index])

    def page(self, index: int, *, seed: str, episode: str) -> str:
        """The HTML of all trips; it says itself which one it shows."""
        return navigation_page(self._recorded, index, title=self.title, subtitle=seed)

    def write(self, kind: str, index: int, path: Path, *, details: str) -> None:
        """One of `files`."""
        write = {"png": write_png, "mp4": write_mp4}[kind]
        trip = self._recorded.trips[index]
        write(self._recorded, trip, path, title=f"{self.title}, {details}")
