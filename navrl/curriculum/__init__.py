"""Curricula: lessons with gates and a league of former selves, or ever harder worlds."""

from navrl.curriculum.base import NoCurriculum
from navrl.curriculum.gate import Gate
from navrl.curriculum.lessons import Lesson, Lessons
from navrl.curriculum.stages import Stages

__all__ = ["Gate", "Lesson", "Lessons", "NoCurriculum", "Stages"]
