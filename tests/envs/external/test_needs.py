"""Worlds from elsewhere name the module that is missing: the library, or what that needs."""

import pytest

from navrl.config.checks import ConfigError
from navrl.envs.external.base import needs


def test_the_library_is_missing():
    with (
        pytest.raises(ConfigError, match=r"^env=x needs X, which is not installed; pip install"),
        needs("absent_library", "env=x needs X"),
    ):
        import absent_library  # noqa: F401


def test_a_dependency_is_missing(tmp_path, monkeypatch):
    (tmp_path / "library_of_x.py").write_text("import absent_dependency.part\n")
    monkeypatch.syspath_prepend(tmp_path)
    sentence = r"needs X, which needs absent_dependency, which is not installed; pip install"
    with pytest.raises(ConfigError, match=sentence), needs("library_of_x", "env=x needs X"):
        import library_of_x  # noqa: F401


def test_a_library_that_cannot_be_imported_says_why(tmp_path, monkeypatch):
    (tmp_path / "broken_library_of_x.py").write_text("from math import absent\n")
    monkeypatch.syspath_prepend(tmp_path)
    sentence = r"needs X, whose import fails \(cannot import name 'absent' from 'math'"
    with pytest.raises(ConfigError, match=sentence), needs("broken_library_of_x", "env=x needs X"):
        import broken_library_of_x  # noqa: F401
