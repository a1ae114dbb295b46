"""The address of a server: the flags that choose it, the open port, and the token."""

from __future__ import annotations

import argparse
import importlib.util
import ipaddress
import os
import secrets
import socket
import sys
from typing import NamedTuple

from navrl.config.checks import ConfigError, require_whole

LOOPBACK = "127.0.0.1"
WATCH_PORT = 7425
PLAY_PORT = 7426
_PACKAGES = ("starlette", "uvicorn", "websockets")


class Listener(NamedTuple):
    """An open port, and the address to open in a browser."""

    socket: socket.socket
    url: str
    token: str | None  # that every request needs; None on loopback


def check_packages(command: str) -> None:
    """Raise one sentence if the packages of the extra [live] are missing."""
    for name in _PACKAGES:
        if importlib.util.find_spec(name) is None:
            raise ImportError(
                f"navrl {command} needs {name}, which is not installed; pip install 'navrl[live]'"
            )


def add_address(parser: argparse.ArgumentParser, default: int) -> None:
    """Add the flags that choose where the server listens."""
    parser.add_argument(
        "--port", type=int, help=f"default: {default}, or a free one if that is taken"
    )
    parser.add_argument(
        "--host",
        default=LOOPBACK,
        help="an address of this machine, 0.0.0.0 for all; other than loopback needs the token that is "
        "printed; default: %(default)s",
    )
    parser.add_argument(
        "--token",
        action="store_true",
        help="ask for a token on loopback too, because of other users",
    )


def listen(options: argparse.Namespace, default: int) -> Listener:
    """Open the port of --host and --port, or raise one sentence."""
    if options.port is not None:
        require_whole("--port", options.port, 1, 65535)
    address = _resolve(options.host)
    try:
        found = _bind(address, options.port or default)
    except OSError as error:
        if options.port is not None:
            raise ConfigError(
                f"--port = {options.port}; expected a port that this user may open and that nobody has "
                f"({os.strerror(error.errno or 0).lower()}); choose another --port"
            ) from error
        found = _bind(address, 0)
        sys.stderr.write(f"navrl: port {default} is taken; took {found.getsockname()[1]}\n")
    local = ipaddress.ip_address(address).is_loopback
    token = None if local and not options.token else secrets.token_urlsafe(24)
    return Listener(found, _url(found, token), token)


def _resolve(host: str) -> str:
    try:
        return str(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0])
    except (OSError, UnicodeError) as error:
        raise ConfigError(
            f"--host = {host}; expected a name or an address of this machine; change --host"
        ) from error


def _bind(address: str, port: int) -> socket.socket:
    """Return a socket that nobody else has; raise OSError if the address is not of this machine."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((address, port))
        found.listen()  # until then another process could bind the same address
    except OSError:
        found.close()
        raise
    return found


def _url(found: socket.socket, token: str | None) -> str:
    address, port = found.getsockname()[:2]
    if ipaddress.ip_address(address).is_unspecified:
        address = socket.gethostname()
    host = f"[{address}]" if ":" in address else address
    return f"http://{host}:{port}/" + (f"?token={token}" if token else "")


def tunnel(port: int) -> str:
    """Return how to open the page on another machine, for who has come by ssh."""
    if "SSH_CONNECTION" not in os.environ:
        return ""
    where = f"{port}:{LOOPBACK}:{port} {socket.gethostname()}"
    return f"from your own machine: ssh -N -L {where}, then open that address there\n"
