"""The first signal asks, the second one ends the process and says what is lost."""

import os
import signal
import time

import pytest

from navrl.config.signals import Stopped
from navrl.run import signals
from navrl.run.signals import Interrupt


def send(number):
    os.kill(os.getpid(), number)


def signalled(*numbers, saves=(), **options):
    """Send signals to a training that has completed an iteration."""
    with Interrupt(lambda: max(saves, default=None), **options) as interrupt:
        interrupt.defer()
        for number in numbers:
            send(number)
            assert interrupt.requested


@pytest.mark.parametrize(
    ("saves", "kept"),
    [([], "nothing was saved"), ([4096, 1_048_576], "the last save is of frame 1,048,576")],
)
def test_the_second_one_says_what_is_kept(capfd, saves, kept):
    with pytest.raises(Stopped, match=f"^stopped at once; {kept}$") as stopped:
        signalled(signal.SIGTERM, signal.SIGINT, saves=saves)
    assert stopped.value.number == signal.SIGINT
    assert capfd.readouterr().err == "stopping after this iteration; once more stops at once\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_it_exits_with_the_code_of_the_signal(number):
    with pytest.raises(SystemExit) as stopped:
        signalled(number)
    assert stopped.value.code == 128 + number


def test_before_the_first_iteration_is_complete_one_is_enough():
    with pytest.raises(Stopped, match="stopped at once"), Interrupt(lambda: None):
        send(signal.SIGTERM)


@pytest.mark.parametrize(("same_s", "error"), [(60.0, SystemExit), (0.0, Stopped)])
def test_the_same_signal_twice_within_a_moment_is_one(monkeypatch, same_s, error):
    monkeypatch.setattr(signals, "_SAME_S", same_s)
    with pytest.raises(error):
        signalled(signal.SIGTERM, signal.SIGTERM)


def test_a_signal_before_a_check_of_the_lesson_names_it(capfd):
    with pytest.raises(SystemExit):
        signalled(signal.SIGTERM, checks=True)
    assert "after this iteration and the check of its lesson" in capfd.readouterr().err


def test_what_is_attempted_is_cut_short_and_not_begun_again():
    begun = []

    def endless():
        begun.append(1)
        send(signal.SIGTERM)
        time.sleep(60)

    def attempted():
        with Interrupt(lambda: None) as interrupt:
            interrupt.defer()
            assert interrupt.attempt(len, "abc") == 3
            assert interrupt.attempt(endless) is None
            assert interrupt.attempt(endless) is None

    with pytest.raises(SystemExit):
        attempted()
    assert begun == [1]


def test_a_request_to_save_ends_nothing(capfd):
    with Interrupt(lambda: None) as interrupt:
        send(signal.SIGUSR1)
        assert interrupt.save_requested
        assert not interrupt.requested
    assert capfd.readouterr().err == "saving after this iteration\n"
