"""Words of a command line: positionals, settings of the command, options of navrl train."""

import argparse

import pytest

from navrl.config.command_line import Setting, take_words

SETTINGS = {
    "seed": Setting(7, "of the episodes"),
    "range_m": Setting(1.5, "metres"),
    "moving": Setting((80,), "numbers"),
    "pilots": Setting((), "names"),
    "env": Setting(None, "a name"),
}


def taken(*words, positionals=1):
    options = argparse.Namespace(words=list(words))
    take_words(options, SETTINGS, positionals=positionals)
    return vars(options)


def test_words_are_sorted_and_typed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "seed=1.ckpt").touch()
    found = taken(
        "seed=1.ckpt", "range_m=2", "env.x=[1,2]", "moving=[0,40]", "pilots=a,b", "~env.y"
    )
    assert found == {
        "positionals": ["seed=1.ckpt"],  # a file of that name exists
        "overrides": ["env.x=[1,2]", "~env.y"],
        **{"seed": 7, "range_m": 2.0, "moving": (0, 40), "pilots": ("a", "b"), "env": None},
    }


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("seed=x",), "seed = x; expected a whole number; change seed"),
        (("range_m=x",), "range_m = x; expected a number; change range_m"),
        (("pilot=a",), "Unknown option 'pilot'; did you mean 'pilots'?"),
        (("latest", "best"), "Cannot read 'best': write key=value"),
    ],
)
def test_wrong_words_get_one_sentence(words, sentence):
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        taken(*words)
    assert str(caught.value) == sentence
