"""Fixtures of the commands that run in this process and an empty folder."""

import pytest


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """run(main, *arguments) -> (exit code, printed text)."""
    monkeypatch.chdir(tmp_path)

    def command(main, *arguments):
        try:
            code = main(list(arguments))
        except SystemExit as stopped:  # --help
            code = stopped.code
        return code, capsys.readouterr()

    return command
