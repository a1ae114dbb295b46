"""Replays for `navrl replay`: play episodes of one kind of world, describe them, write them as files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from navrl.storage.files import write_atomically
from navrl.view import combat_picture, navigation_picture
from navrl.view.acmi import acmi
from navrl.view.combat_page import combat_page
from navrl.view.combat_page import outcome as combat_outcome
from navrl.view.combat_recording import Recording, play_episodes, recording
from navrl.view.episodes import Act
from navrl.view.navigation_page import navigation_page
from navrl.view.navigation_page import outcome as navigation_outcome
from navrl.view.navigation_recording import play_trips
from navrl.view.spacetime import spacetime_graph
from navrl.view.world_page import outcome as world_outcome
from navrl.view.world_page import world_page
from navrl.view.world_recording import play_worlds


class Replay:
    """Played episodes of one kind of world."""

    outcomes: Sequence[str] = ()  # of an episode; some worlds know them once they are built
    files: tuple[str, ...] = ()  # kinds that write() knows, beside the page
    shows_all = False  # a page holds all episodes
    endings: Sequence[frozenset[str]]  # the outcomes of each episode

    def __init__(self, env: Any, policy: Act, *, first: int, pilot: str, setting: str) -> None:
        """Play the first episode of every env; their numbers begin with `first`."""
        self.title = f"{pilot} in {setting}"

    def outcome(self, index: int) -> str:
        """Return how one episode ended, in words."""
        raise TypeError(f"{type(self).__name__} lacks outcome(index)")

    def highlights(self) -> dict[str, int]:
        """Return the episodes worth a look by what they show: the first of each outcome, each once."""
        found: dict[str, int] = {}
        for name in self.outcomes:
            of_kind = [index for index, ending in enumerate(self.endings) if name in ending]
            if of_kind and of_kind[0] not in found.values():
                found[name.replace("_", " ")] = of_kind[0]
        return found or {"episode": 0}

    def page(self, index: int, *, seed: str, episode: str) -> str:
        """Return the HTML that shows one episode."""
        raise TypeError(f"{type(self).__name__} lacks page(index, ...)")

    def write(self, kind: str, index: int, path: Path, *, details: str) -> None:
        """Write one episode as one of `files`."""
        raise TypeError(f"{type(self).__name__} writes no {kind}")


class CombatReplay(Replay):
    """A replay of air combat; a page shows one fight."""

    outcomes = ("win", "loss", "draw")  # for the policy's side
    files = ("acmi", "png", "mp4")

    def __init__(self, env: Any, policy: Act, *, first: int, pilot: str, setting: str) -> None:
        super().__init__(env, policy, first=first, pilot=pilot, setting=setting)
        self.title = f"{pilot} against {setting}"
        self._pilots = (pilot, setting)
        self._fights = [recording(env.params, states) for states in play_episodes(env, policy)]
        names = {0: "win", 1: "loss", None: "draw"}
        self.endings = [frozenset({names[fight.winner]}) for fight in self._fights]

    def highlights(self) -> dict[str, int]:
        """Return the quickest win and loss, and the fight whose winner evaded the most missiles."""
        found: dict[str, int] = {}
        length = [fight.times_s[-1] for fight in self._fights]
        for name in self.outcomes:
            of_kind = [index for index, ending in enumerate(self.endings) if name in ending]
            if of_kind:
                found[name] = min(of_kind, key=lambda index: length[index])
        if len(found) > 1:
            found.pop("draw", None)
        evaded = [_evaded_by_winner(fight) for fight in self._fights]
        rest = [
            index for index, number in enumerate(evaded) if number and index not in found.values()
        ]
        if rest:
            found["close fight"] = max(rest, key=lambda index: (evaded[index], length[index]))
        return found

    def outcome(self, index: int) -> str:
        """Return the winner and the reason in words."""
        return combat_outcome(self._fights[index])

    def page(self, index: int, *, seed: str, episode: str) -> str:
        """Return the HTML of one fight."""
        return combat_page(
            self._fights[index],
            spacetime_graph,
            title=self.title,
            subtitle=f"{seed}, {episode}",
            pilots=self._pilots,
        )

    def write(self, kind: str, index: int, path: Path, *, details: str) -> None:
        """Write one fight as one of `files`."""
        fight, title = self._fights[index], f"{self.title}, {details}"
        if kind == "acmi":
            write_atomically(path, acmi(fight, title=title))
            return
        write = {"png": combat_picture.write_png, "mp4": combat_picture.write_mp4}[kind]
        write(fight, path, title=title, pilots=self._pilots)


class NavigationReplay(Replay):
    """A replay of drone navigation; a page holds all episodes and opens with one of them."""

    outcomes = (
        *("success", "collision", "collision_static", "collision_moving"),
        *("outside", "timeout"),
    )
    files = ("png", "mp4")
    shows_all = True

    def __init__(self, env: Any, policy: Act, *, first: int, pilot: str, setting: str) -> None:
        super().__init__(env, policy, first=first, pilot=pilot, setting=setting)
        self._recorded = play_trips(env, policy, first=first)
        # A collision with something that moves is one of all collisions.
        self.endings = [
            frozenset({trip.outcome, trip.outcome.partition("_")[0]})
            for trip in self._recorded.trips
        ]

    def highlights(self) -> dict[str, int]:
        """Return the episode that reached its goal with the least room; its page holds them all."""
        trips = self._recorded.trips
        reached = [index for index, trip in enumerate(trips) if trip.outcome == "success"]
        if not reached:
            return {trips[0].outcome.replace("_", " "): 0}
        return {"close success": min(reached, key=lambda index: min(trips[index].clearance_m))}

    def outcome(self, index: int) -> str:
        """Return the outcome of one episode in words."""
        return navigation_outcome(self._recorded.trips[index])

    def page(self, index: int, *, seed: str, episode: str) -> str:
        """Return the HTML of all episodes; the page itself shows the number of the current one."""
        return navigation_page(self._recorded, index, title=self.title, subtitle=seed)

    def write(self, kind: str, index: int, path: Path, *, details: str) -> None:
        """Write one episode as one of `files`."""
        write = {"png": navigation_picture.write_png, "mp4": navigation_picture.write_mp4}[kind]
        trip = self._recorded.trips[index]
        write(self._recorded, trip, path, title=f"{self.title}, {details}")


class WorldReplay(Replay):
    """A replay of any other world: its picture, if it draws one, and its numbers; one episode a page."""

    def __init__(self, env: Any, policy: Act, *, first: int, pilot: str, setting: str) -> None:
        super().__init__(env, policy, first=first, pilot=pilot, setting=setting)
        self._objective: str = env.objective
        self._episodes = play_worlds(env, policy)
        rates = rate_outcomes(env)
        self.outcomes = sorted(rates, key=lambda name: name.removeprefix("no_") != env.objective)
        self.endings = [
            frozenset(rate if rate in episode.happened else f"no_{rate}" for rate in env.rate_names)
            for episode in self._episodes
        ]

    def highlights(self) -> dict[str, int]:
        """Return the first episode of each outcome, or the best and the worst where there are none."""
        if self.outcomes:
            return super().highlights()  # the objective's come first
        scores = [episode.statistics[self._objective] for episode in self._episodes]
        best, worst = scores.index(max(scores)), scores.index(min(scores))
        return {"best episode": best} | ({"worst episode": worst} if worst != best else {})

    def outcome(self, index: int) -> str:
        """Return how one episode ended, by the statistic that its world is judged by."""
        return world_outcome(self._episodes[index], self._objective)

    def page(self, index: int, *, seed: str, episode: str) -> str:
        """Return the HTML of one episode."""
        return world_page(
            self._episodes[index],
            title=self.title,
            subtitle=f"{seed}, {episode}",
            outcome=self.outcome(index),
        )


def _evaded_by_winner(fight: Recording) -> int:
    """Return the missiles that missed an aircraft of the side that won; 0 of a draw."""
    return sum(
        flight.ending == "miss" and fight.aircraft[flight.target].team == fight.winner
        for flight in fight.flights
    )


def rate_outcomes(env: Any) -> list[str]:
    """Return the outcomes of a world that has a name for each of its rates alone."""
    return [name for rate in env.rate_names for name in (rate, f"no_{rate}")]
