"""The state of a population: members of all generations, in a file that several workers share."""

from __future__ import annotations

import contextlib
from typing import Any, NamedTuple

from navrl.config.checks import ConfigError
from navrl.config.signals import held
from navrl.run.lock import RunDirectoryError, RunLock
from navrl.storage.files import make_directory, read_json, to_json, write_atomically
from navrl.storage.find import OUTPUTS, find
from navrl.tune.evolution import Member, first_generation, next_generation
from navrl.tune.plan import Plan, keep

_FILE = "population.json"
_COPIES = "members/*/*.ckpt"
_MOST_TIMES = 20  # that a member is given again; then it is what kills its workers


class Turn(NamedTuple):
    """A member that this worker trains in the present generation; nobody else does while the worker lives."""

    member: Member
    generation: int  # counted from 1
    lock: RunLock


class Population:
    """The members of all generations; every change is one replacement of the file."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        with plan.turn():
            keep(plan)
            if not (plan.folder / _FILE).exists():
                size, seed = plan.options.population, plan.seeds[0]
                self._write([first_generation(plan.space, size, seed)])

    def generations(self) -> list[list[Member]]:
        """Return the members of every generation so far; those of the last one may not have ended."""
        path = self.plan.folder / _FILE
        try:
            return [[Member(**each) for each in members] for members in read_json(path)]
        except (OSError, ValueError, TypeError) as error:
            raise ConfigError(
                f"{path} cannot be read ({error}); expected the state of a population; "
                "choose another study=..."
            ) from error

    def over(self) -> bool:
        """Return whether all members of the last generation have ended."""
        return _is_over(self.plan, self.generations())

    def trained(self) -> int:
        """Return how many trainings of a generation have ended."""
        return sum(each.ended for members in self.generations() for each in members)

    def next(self) -> Turn | None:
        """Return a member to train; None while others have all that are left."""
        with self.plan.turn():
            generations = self.generations()
            for member in generations[-1]:
                with contextlib.suppress(RunDirectoryError):
                    if not member.ended:
                        return self._taken(generations, member)
        return None

    def end(self, turn: Turn, score: float | None, fault: str = "") -> None:
        """Record the end of a member's training; the last one of a generation begins the next."""
        with self.plan.turn():
            self._record(self.generations(), turn.member.number, score, fault)

    def give_again(self, turn: Turn) -> None:
        """Let a member that has to stop not count as one that was killed."""
        with held(), self.plan.turn():
            generations = self.generations()
            if len(generations) == turn.generation:
                member = generations[-1][turn.member.number]
                generations[-1][member.number] = member._replace(times=max(member.times - 1, 0))
                self._write(generations)

    def _taken(self, generations: list[list[Member]], member: Member) -> Turn | None:
        """Return the member under its lock; one that kills every worker has failed."""
        lock = RunLock((self.plan.folder / member.run).parent)
        try:
            if member.times >= _MOST_TIMES:
                lock.release()
                self._record(generations, member.number, None, "its workers were killed")
                return None
            generations[-1][member.number] = member._replace(times=member.times + 1)
            self._write(generations)
        except BaseException:
            lock.release()
            raise
        return Turn(member, len(generations), lock)

    def _record(
        self, generations: list[list[Member]], number: int, score: float | None, fault: str
    ) -> None:
        members = generations[-1]
        members[number] = members[number]._replace(ended=True, score=score, fault=fault, times=0)
        if all(each.fault for each in members):
            # Nobody is left to take over from; the same command tries all of them again.
            generations[-1] = [each._replace(ended=False, fault="") for each in members]
            self._write(generations)
            raise ConfigError(
                f"all {len(members)} members failed in generation {len(generations)}: {fault}"
            )
        if all(each.ended for each in members) and not _is_over(self.plan, generations):
            generations.append(self._bred(generations))
        self._write(generations)
        self._delete_copies(generations[-1])

    def _bred(self, generations: list[list[Member]]) -> list[Member]:
        """Return the next generation, with copies of the checkpoints that it takes over."""
        plan, before = self.plan, generations[-1]
        members = next_generation(plan.space, before, len(generations) + 1, plan.seeds[0])
        for member in members:
            if member.parent != member.number:
                newest = find(str(plan.folder / before[member.parent].run), OUTPUTS)
                copy = plan.folder / member.source
                make_directory(copy.parent)
                write_atomically(copy, newest.read_bytes())
        return members

    def _write(self, generations: list[list[Member]]) -> None:
        rows: list[list[dict[str, Any]]] = [[m._asdict() for m in each] for each in generations]
        write_atomically(self.plan.folder / _FILE, to_json(rows, indent=1) + "\n")

    def _delete_copies(self, members: list[Member]) -> None:
        """Delete checkpoints that no member begins with any more."""
        needed = {self.plan.folder / each.source for each in members if each.source}
        for path in self.plan.folder.glob(_COPIES):
            if path not in needed:
                path.unlink(missing_ok=True)


def frames_until(plan: Plan, member: Member, generation: int) -> int:
    """Return the frames of the member's run at the end of a generation."""
    return min(generation * plan.interval, plan.total_frames) - member.base * plan.interval


def _is_over(plan: Plan, generations: list[list[Member]]) -> bool:
    return len(generations) == plan.generations and all(each.ended for each in generations[-1])
