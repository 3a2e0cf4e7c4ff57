"""A PostgreSQL server on this machine, for tests: its own cluster in a temporary folder, on a free port of the loopback."""

import contextlib
import functools
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from deid_assets_tests.processes import WAIT, free_port

try:
    import psycopg2
except ImportError:
    psycopg2 = None

USER = "deid"
PASSWORD = "a-password-of-tests"


@functools.cache
def programs() -> Path | None:
    """The folder of the server's programs; None if it is not installed. Debian keeps them out of the PATH."""
    found = shutil.which("initdb")
    if found:
        return Path(found).parent
    return max((path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")), default=None)


needs_postgres = pytest.mark.skipif(
    psycopg2 is None or programs() is None,
    reason="no PostgreSQL server (initdb) is installed, or the extra `postgres` is not",
)


@dataclass(frozen=True)
class Server:
    """A running server."""

    port: int

    @contextlib.contextmanager
    def database(self) -> Iterator[str]:
        """An empty database; returns its address for Dagster."""
        name = f"deid_{secrets.token_hex(6)}"
        self.execute(f"CREATE DATABASE {name}")
        try:
            yield f"postgresql+psycopg2://{USER}:{PASSWORD}@127.0.0.1:{self.port}/{name}"
        finally:
            self.execute(f"DROP DATABASE {name} WITH (FORCE)")

    def execute(self, statement: str) -> None:
        with contextlib.closing(self.connection()) as connection:
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute(statement)

    def connection(self):
        return psycopg2.connect(host="127.0.0.1", port=self.port, user=USER, password=PASSWORD, dbname="postgres")


@contextlib.contextmanager
def postgres_server() -> Iterator[Server]:
    """Make a cluster and start its server; both are gone afterwards. It does not run as root, as none would."""
    folder = Path(tempfile.mkdtemp(prefix="deid-postgres-"))
    user, group = _user()
    try:
        password = folder / "password"
        password.write_text(PASSWORD)
        for path in (folder, password):
            os.chown(path, user, group)
        run = {"user": user, "group": group, "extra_groups": [], "cwd": folder} if os.getuid() == 0 else {"cwd": folder}
        made = subprocess.run(
            [programs() / "initdb", "-D", folder / "data", "-U", USER, "-A", "scram-sha-256", "--pwfile", password, "-N",
             "-E", "UTF8", "--locale", "C"],
            capture_output=True, text=True, check=False, **run,
        )  # fmt: skip
        assert made.returncode == 0, made.stderr
        port = free_port()
        options = {"listen_addresses": "127.0.0.1", "port": port, "unix_socket_directories": "", "fsync": "off"}
        process = subprocess.Popen(
            [programs() / "postgres", "-D", folder / "data", *(f"--{name}={value}" for name, value in options.items())],
            stdout=subprocess.DEVNULL, stderr=(folder / "log").open("wb"), **run,
        )  # fmt: skip
        try:
            server = Server(port)
            _wait(server, process, folder / "log")
            yield server
        finally:
            process.send_signal(signal.SIGINT)  # disconnects everybody and ends
            process.wait(WAIT)
    finally:
        shutil.rmtree(folder)


def _user() -> tuple[int, int]:
    """Who runs the server: this user, or somebody else if this is root."""
    if os.getuid() != 0:
        return os.getuid(), os.getgid()
    names = {entry.pw_name: entry for entry in pwd.getpwall()}
    entry = names.get("postgres") or names["nobody"]
    return entry.pw_uid, entry.pw_gid


def _wait(server: Server, process: subprocess.Popen, log: Path) -> None:
    deadline = time.monotonic() + WAIT
    while True:
        assert process.poll() is None, log.read_text()
        try:
            server.connection().close()
        except psycopg2.OperationalError:
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        else:
            return
