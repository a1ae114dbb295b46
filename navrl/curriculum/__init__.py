"""What a run learns when: lessons with gates and a league of former selves, or harder and harder worlds."""

from navrl.curriculum.lessons import Lessons
from navrl.curriculum.nothing import Nothing
from navrl.curriculum.stages import Stages

__all__ = ["Lessons", "Nothing", "Stages"]
