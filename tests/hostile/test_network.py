"""A run that has a key of wandb, a server at hand and a proxy connects to none of them unless told to."""

import socket

import pytest

import navrl.train
from tests.command_line import process

pytestmark = pytest.mark.hostile
TINY = (
    "experiment=debug",
    "env=alice_and_bob",
    "total_frames=128",
    "num_envs=8",
    "rollout_steps=16",
)


@pytest.mark.parametrize(
    ("options", "connects"),
    [((), False), (("logger.mode=online", "logger.init_timeout_s=2"), True)],
    ids=["default", "online"],
)
def test_only_online_connects(tmp_path, options, connects):
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        environment = {
            "WANDB_BASE_URL": address,
            "WANDB_API_KEY": "0" * 40,
            "WANDB_MODE": "online",
            **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), address),
        }
        done = process(
            navrl.train.main,
            *TINY,
            "logger=wandb",
            *options,
            folder=tmp_path,
            environment=environment,
        )
        assert done.returncode == 0, done.stderr
        assert list(tmp_path.glob("outputs/*/*/wandb/offline-run-*")), "wandb wrote nothing"
        server.settimeout(0)
        try:
            server.accept()[0].close()
        except BlockingIOError:
            connected = False
        else:
            connected = True
    assert connected is connects
