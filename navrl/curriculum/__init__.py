"""What a run learns when: lessons with gates and a league of former selves, or harder and harder worlds."""

from navrl.curriculum.gate import Gate
from navrl.curriculum.lessons import Lesson, Lessons
from navrl.curriculum.nothing import Nothing
from navrl.curriculum.stages import Stages

__all__ = ["Gate", "Lesson", "Lessons", "Nothing", "Stages"]
