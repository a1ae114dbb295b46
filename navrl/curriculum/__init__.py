"""What a run learns when: lessons with gates, and the league of its former selves."""

from navrl.curriculum.lessons import Lessons
from navrl.curriculum.nothing import Nothing

__all__ = ["Lessons", "Nothing"]
