"""Lessons: what they set, and when they are left for the next or an old one."""

import pytest

from tests.curriculum.desk import School, lesson, settings


def test_a_lesson_is_left_when_its_gate_passes_and_not_before():
    school = School(lesson(0), lesson(1), lesson(2))
    assert school.desk.now == settings(0)
    school.results = {0: 0.89}
    assert school.go()["curriculum/stage"] == 1.0
    school.results = {0: 0.91}
    assert school.go(4)["curriculum/stage"] == 1.0, "it is asked in every fifth iteration"
    assert [number for number, _ in school.asked] == [0]
    assert school.go(1) == {"curriculum/win": 0.91, "curriculum/stage": 2.0}
    assert school.desk.now == settings(1)
    school.results = {0: 0.91, 1: 1.0}
    school.go()
    assert school.lessons.stage == 2
    assert school.desk.now == settings(2)
    assert school.told == [
        "examined after 5,000 frames (most probable actions): "
        "lesson 1 'lesson0' win 0.89 (0.9 or more): not passed",
        "examined after 10,000 frames (most probable actions): "
        "lesson 1 'lesson0' win 0.91 (0.9 or more): passed",
        "lesson 'lesson0' is learned after 10,000 frames: next 'lesson1'",
        "examined after 15,000 frames (most probable actions): "
        "lesson 2 'lesson1' win 1 (0.9 or more): passed; "
        "old lesson 1 'lesson0' win 0.91 (0.9 or more): kept",
        "lesson 'lesson1' is learned after 15,000 frames: next 'lesson2'",
    ]


def test_the_last_lesson_is_never_left():
    school = School(lesson(0))
    school.results = {0: 1.0}
    assert school.go(10)["curriculum/stage"] == 1.0
    assert not any("next" in sentence for sentence in school.told)


def test_a_lesson_without_a_gate_is_not_told_of():
    school = School(lesson(0, at_least={}))
    school.go(10)
    assert school.told == []


def test_who_forgets_an_old_lesson_goes_back_to_it():
    school = School(lesson(0), lesson(1), lesson(2), lesson(3, league=True))
    school.results = {0: 1.0, 1: 1.0, 2: 1.0, 3: 0.5}
    school.go(15)
    assert (school.lessons.stage, school.bench.on) == (3, True)
    school.results[1] = 0.81  # a slack of 0.1 under 0.9 forgives
    school.go(15)
    assert school.lessons.stage == 3
    school.results[1] = 0.79
    stages = [school.go()["curriculum/stage"] for _ in range(3)]
    assert 2.0 in stages, "old lessons are asked in turn, each within three examinations"
    back = stages.index(2.0)
    assert stages[:back] == [4.0] * back
    assert school.told[-1].startswith("lesson 'lesson1' is forgotten after ")
    assert school.told[-1].endswith(" frames: back to it from 'lesson3'")
    assert "'lesson1' win 0.79 (0.9 or more): missed by more than the slack" in school.told[-2]
    assert school.desk.now == settings(1)
    assert school.bench.on is False
    school.results[1] = 1.0
    school.go(10)
    assert (school.lessons.stage, school.bench.on) == (3, True)


def test_forgetting_counts_before_learning():
    school = School(lesson(0), lesson(1), lesson(2))
    school.results = {0: 1.0}
    school.go()
    school.results = {0: 0.5, 1: 1.0}
    metrics = school.go()
    assert metrics["curriculum/stage"] == 1.0
    assert (metrics["curriculum/old_lesson"], metrics["curriculum/old_win"]) == (1.0, 0.5)


def test_a_lesson_whose_budget_is_spent_is_left_for_good():
    # A thousand frames an iteration; the first lesson may have 12,000 in all, the last one stays the last.
    school = School(lesson(0, at_most_frames=12_000), lesson(1), lesson(2, at_most_frames=1000))
    assert school.go(11)["curriculum/stage"] == 1.0
    school.told.clear()
    assert school.go(1)["curriculum/stage"] == 2.0
    assert school.desk.now == settings(1)
    sentence = "lesson 'lesson0' has had its 12,000 frames without being learned: next 'lesson1'"
    assert school.told == [sentence]
    metrics = school.go(8)
    assert (metrics["curriculum/old_win"], metrics["curriculum/stage"]) == (0.0, 2.0), "no way back"
    school.results = {1: 1.0}
    assert school.go(20)["curriculum/stage"] == 3.0


def test_time_in_a_lesson_adds_up_over_visits_and_resumes():
    lessons = lesson(0, at_most_frames=12_000), lesson(1)
    school, other = School(*lessons), School(*lessons)
    school.results = {0: 1.0}
    school.go(5)  # learned: 5,000 of its frames are spent
    school.results = {0: 0.0}
    assert school.go(5)["curriculum/stage"] == 1.0, "forgotten"
    other.lessons.load_state_dict(school.lessons.state_dict())
    other.iteration = 10
    for each in (school, other):
        assert each.go(6)["curriculum/stage"] == 1.0
        assert each.go(1)["curriculum/stage"] == 2.0


def test_every_old_lesson_is_asked_in_turn():
    school = School(*(lesson(number) for number in range(4)))
    school.results = {0: 1.0, 1: 1.0, 2: 1.0}
    school.go(15)
    school.asked.clear()
    school.go(30)
    assert sorted(number for number, _ in school.asked if number != 3) == [0, 0, 1, 1, 2, 2]
    assert len(school.asked) == 12


def test_an_examination_asks_for_its_own_opponents_and_puts_the_lesson_back():
    school = School(lesson(0, examined={"b": 1.0}), lesson(1))
    school.results = {0: 0.0}
    school.go()
    ((number, asked),) = school.asked
    assert asked == settings(number) | {"opponents": {"a": 0.0, "b": 1.0}}
    assert school.desk.now == settings(0)


def test_an_examination_that_fails_puts_the_lesson_back():
    school = School(lesson(0, examined={"b": 1.0}))

    def broken(env):
        raise ZeroDivisionError

    school.lessons._measure = broken
    with pytest.raises(ZeroDivisionError):
        school.go()
    assert school.desk.now == settings(0)


def test_a_gate_that_asks_for_nothing_costs_no_examination():
    school = School(lesson(0), lesson(1, at_least={}, league=True))
    school.results = {0: 1.0}
    school.go()
    school.asked.clear()
    school.go()
    assert [number for number, _ in school.asked] == [0]


def test_the_league_counts_in_its_lessons_only():
    school = School(lesson(0), lesson(1, league=True))
    school.results = {0: 1.0}
    assert "league/frames" not in school.go()
    assert school.bench.counted == 0
    assert school.go(2)["league/frames"] == 7000.0
    assert school.bench.counted == 2


def test_what_the_console_is_told():
    school = School(lesson(0), lesson(1))
    assert school.lessons.headline == {"stage": "curriculum/stage"}
    assert school.lessons.words == {"curriculum/stage": ["lesson0", "lesson1"]}
    assert school.lessons.summary == "lessons lesson0, lesson1; now 1 lesson0"


def test_the_state_goes_on_in_the_same_lesson():
    school, other = (School(*(lesson(number) for number in range(4))) for _ in range(2))
    school.results = other.results = {0: 1.0, 1: 1.0, 2: 0.5}
    school.go(15)
    other.lessons.load_state_dict(school.lessons.state_dict())
    assert other.lessons.state_dict() == school.lessons.state_dict()
    assert other.desk.now == school.desk.now == settings(2)
    for each in (school, other):
        each.asked.clear()
        each.iteration = 15
        each.go(15)
    assert other.asked == school.asked


@pytest.mark.parametrize("state", [{}, {"stage": "elsewhere", "asked": 0, "league": {}}])
def test_a_checkpoint_of_another_curriculum_is_refused(state):
    with pytest.raises(
        ValueError, match="expected one of lesson0; go on with the curriculum it was"
    ):
        School(lesson(0)).lessons.load_state_dict(state)
