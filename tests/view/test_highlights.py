"""Which of many episodes a gallery shows, by hand."""

from types import SimpleNamespace as Bare

from navrl.view.replay import CombatReplay, NavigationReplay, WorldReplay


def fight(winner, seconds, missed=()):
    """A fight with missiles that missed aircraft of these teams; team 0 is the policy's."""
    flights = [Bare(ending="miss", target=team) for team in missed]
    flights.append(Bare(ending="hit", target=0))
    return Bare(
        winner=winner,
        times_s=[0.0, seconds],
        flights=flights,
        aircraft=[Bare(team=0), Bare(team=1)],
    )


def combat(*fights):
    played = CombatReplay.__new__(CombatReplay)
    names = {0: "win", 1: "loss", None: "draw"}
    played._fights = fights
    played.endings = [frozenset({names[each.winner]}) for each in fights]
    return played.highlights()


def test_the_quickest_win_and_loss_and_a_close_fight():
    assert combat(
        fight(0, 40.0),
        fight(0, 20.0, missed=[0, 0, 0]),  # the quickest win
        fight(1, 30.0),
        fight(None, 99.0, missed=[0, 1]),  # a draw has no winner to evade anything
        fight(0, 60.0, missed=[0, 1, 1]),
        fight(1, 70.0, missed=[1, 1, 0]),  # its winner evaded two
        fight(0, 50.0, missed=[0, 0]),  # as many, but it was shorter
    ) == {"win": 1, "loss": 2, "close fight": 5}


def test_draws_are_shown_where_there_is_nothing_else():
    assert combat(fight(None, 9.0), fight(None, 8.0)) == {"draw": 1}


def test_the_trip_with_the_least_room():
    played = NavigationReplay.__new__(NavigationReplay)
    ends = [
        ("collision", [0.1]),
        ("success", [2.0, 0.9]),
        ("success", [0.8, 3.0]),
        ("timeout", [0.2]),
    ]
    played._recorded = Bare(trips=[Bare(outcome=name, clearance_m=room) for name, room in ends])
    assert played.highlights() == {"close success": 2}
    played._recorded.trips[:] = played._recorded.trips[:1]
    assert played.highlights() == {"collision": 0}


def test_worlds_show_each_outcome_or_the_best_and_the_worst():
    played = WorldReplay.__new__(WorldReplay)
    played.outcomes = ["success", "no_success"]
    played.endings = [frozenset({"no_success"}), frozenset({"success"}), frozenset({"success"})]
    assert played.highlights() == {"success": 1, "no success": 0}
    played.outcomes = ["success", "no_success", "door", "no_door"]
    doors = ["no_door", "no_door", "door"]
    played.endings = [each | {door} for each, door in zip(played.endings, doors, strict=True)]
    assert played.highlights() == {"success": 1, "no success": 0, "door": 2}, "no episode twice"
    played.outcomes, played._objective = [], "score"
    played._episodes = [Bare(statistics={"score": score}) for score in (0.5, 0.2, 0.9)]
    assert played.highlights() == {"best episode": 2, "worst episode": 1}
    played._episodes = played._episodes[:1]
    assert played.highlights() == {"best episode": 0}
