"""Lessons: what they set, and when they are left for the next or an old one."""

import pytest

from tests.curriculum.fakes import Course, lesson, settings


def test_a_lesson_is_left_when_its_gate_passes_and_not_before():
    course = Course(lesson(0), lesson(1), lesson(2))
    assert course.env.now == settings(0)
    course.results = {0: 0.89}
    assert course.go()["curriculum/stage"] == 1.0
    course.results = {0: 0.91}
    assert course.go(4)["curriculum/stage"] == 1.0, "it is evaluated in every fifth iteration"
    assert [number for number, _ in course.evaluated] == [0]
    assert course.go(1) == {"curriculum/win": 0.91, "curriculum/stage": 2.0}
    assert course.env.now == settings(1)
    course.results = {0: 0.91, 1: 1.0}
    course.go()
    assert course.lessons.stage == 2
    assert course.env.now == settings(2)
    assert course.notes == [
        "evaluated after 5,000 frames (most probable actions): "
        "lesson 1 'lesson0' win 0.89 (0.9 or more): not passed",
        "evaluated after 10,000 frames (most probable actions): "
        "lesson 1 'lesson0' win 0.91 (0.9 or more): passed",
        "lesson 'lesson0' is learned after 10,000 frames: next 'lesson1'",
        "evaluated after 15,000 frames (most probable actions): "
        "lesson 2 'lesson1' win 1 (0.9 or more): passed; "
        "old lesson 1 'lesson0' win 0.91 (0.9 or more): kept",
        "lesson 'lesson1' is learned after 15,000 frames: next 'lesson2'",
    ]


def test_who_forgets_an_old_lesson_goes_back_to_it():
    course = Course(lesson(0), lesson(1), lesson(2), lesson(3, league=True))
    course.results = {0: 1.0, 1: 1.0, 2: 1.0, 3: 0.5}
    course.go(15)
    assert (course.lessons.stage, course.league.on) == (3, True)
    course.results[1] = 0.81  # a slack of 0.1 under 0.9 forgives
    course.go(15)
    assert course.lessons.stage == 3
    course.results[1] = 0.79
    stages = [course.go()["curriculum/stage"] for _ in range(3)]
    assert 2.0 in stages, "old lessons are evaluated in turn, each within three evaluations"
    back = stages.index(2.0)
    assert stages[:back] == [4.0] * back
    assert course.notes[-1].startswith("lesson 'lesson1' is forgotten after ")
    assert course.notes[-1].endswith(" frames: back to it from 'lesson3'")
    assert "'lesson1' win 0.79 (0.9 or more): missed by more than the slack" in course.notes[-2]
    assert course.env.now == settings(1)
    assert course.league.on is False
    course.results[1] = 1.0
    course.go(10)
    assert (course.lessons.stage, course.league.on) == (3, True)


def test_forgetting_counts_before_learning():
    course = Course(lesson(0), lesson(1), lesson(2))
    course.results = {0: 1.0}
    course.go()
    course.results = {0: 0.5, 1: 1.0}
    metrics = course.go()
    assert metrics["curriculum/stage"] == 1.0
    assert (metrics["curriculum/old_lesson"], metrics["curriculum/old_win"]) == (1.0, 0.5)


def test_a_lesson_whose_budget_is_spent_is_left_for_good():
    # A thousand frames an iteration; the first lesson may have 12,000 in all, the last one stays the last.
    course = Course(lesson(0, at_most_frames=12_000), lesson(1), lesson(2, at_most_frames=1000))
    assert course.go(11)["curriculum/stage"] == 1.0
    course.notes.clear()
    assert course.go(1)["curriculum/stage"] == 2.0
    assert course.env.now == settings(1)
    sentence = "lesson 'lesson0' has had its 12,000 frames without being learned: next 'lesson1'"
    assert course.notes == [sentence]
    metrics = course.go(8)
    assert (metrics["curriculum/old_win"], metrics["curriculum/stage"]) == (0.0, 2.0), "no way back"
    course.results = {1: 1.0}
    assert course.go(20)["curriculum/stage"] == 3.0


def test_time_in_a_lesson_adds_up_over_visits_and_resumes():
    lessons = lesson(0, at_most_frames=12_000), lesson(1)
    course, other = Course(*lessons), Course(*lessons)
    course.results = {0: 1.0}
    course.go(5)  # learned: 5,000 of its frames are spent
    course.results = {0: 0.0}
    assert course.go(5)["curriculum/stage"] == 1.0, "forgotten"
    other.lessons.load_state_dict(course.lessons.state_dict())
    other.iteration = 10
    for each in (course, other):
        assert each.go(6)["curriculum/stage"] == 1.0
        assert each.go(1)["curriculum/stage"] == 2.0


def test_a_gate_meets_its_own_opponents_and_the_lesson_continues():
    course = Course(lesson(0, gate_opponents={"b": 1.0}), lesson(1))
    course.results = {0: 0.0}
    course.go()
    ((number, applied),) = course.evaluated
    assert applied == settings(number) | {"opponents": {"a": 0.0, "b": 1.0}}
    assert course.env.now == settings(0)


def test_the_lesson_continues_after_a_failed_evaluation():
    course = Course(lesson(0, gate_opponents={"b": 1.0}))

    def broken(env):
        raise ZeroDivisionError

    course.lessons._measure = broken
    with pytest.raises(ZeroDivisionError):
        course.go()
    assert course.env.now == settings(0)


def test_a_gate_without_bounds_is_not_evaluated():
    course = Course(lesson(0), lesson(1, at_least={}, league=True))
    course.results = {0: 1.0}
    course.go()
    course.evaluated.clear()
    course.go()
    assert [number for number, _ in course.evaluated] == [0]


def test_the_league_counts_in_its_lessons_only():
    course = Course(lesson(0), lesson(1, league=True))
    course.results = {0: 1.0}
    assert "league/frames" not in course.go()
    assert course.league.counted == 0
    assert course.go(2)["league/frames"] == 7000.0
    assert course.league.counted == 2


def test_the_state_goes_on_in_the_same_lesson():
    course, other = (Course(*(lesson(number) for number in range(4))) for _ in range(2))
    course.results = other.results = {0: 1.0, 1: 1.0, 2: 0.5}
    course.go(15)
    other.lessons.load_state_dict(course.lessons.state_dict())
    assert other.lessons.state_dict() == course.lessons.state_dict()
    assert other.env.now == course.env.now == settings(2)
    for each in (course, other):
        each.evaluated.clear()
        each.iteration = 15
        each.go(15)
    assert other.evaluated == course.evaluated


@pytest.mark.parametrize("state", [{}, {"stage": "elsewhere", "old_stage": 0, "league": {}}])
def test_a_checkpoint_of_another_curriculum_is_refused(state):
    with pytest.raises(
        ValueError, match="expected one of lesson0; continue with the curriculum it was"
    ):
        Course(lesson(0)).lessons.load_state_dict(state)
