"""The first signal asks, the second one ends the process and says what is lost."""

import os
import signal

import pytest

from navrl.run.signals import Interrupt


@pytest.mark.parametrize(
    ("saves", "kept"),
    [([], "nothing was saved"), ([4096, 1_048_576], "the last save is of frame 1,048,576")],
)
def test_the_second_one_says_what_is_kept(capfd, saves, kept):
    with Interrupt(lambda: max(saves, default=None)) as interrupt:
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupt.requested
        assert kept not in capfd.readouterr().err
        with pytest.raises(SystemExit) as stopped:
            os.kill(os.getpid(), signal.SIGINT)
    assert stopped.value.code == 130
    assert capfd.readouterr().err == f"stopped at once; {kept}\n"


def test_a_signal_before_an_evaluation_names_it(capfd):
    with Interrupt(lambda: None, evaluates=True):
        os.kill(os.getpid(), signal.SIGTERM)
    assert "after this iteration and its evaluation, if one is due" in capfd.readouterr().err
