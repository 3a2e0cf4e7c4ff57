"""Homes of earlier versions, packed: they hold releases that this version no longer makes, and must still read.

Beside each `NAME.tar.xz` is the script that made it, `make_NAME.py`. Restricted stores and deliveries are left out.
"""

import os
import sqlite3
import tarfile
from collections.abc import Iterable
from pathlib import Path

SECRET = "a secret of the frozen homes, made for tests alone"
LEFT_OUT = ("deliveries/", "store/small/", "store/tables/", "store/flat_table/")
"""What no command that looks at a release needs."""

_HERE = Path(__file__).parent


def opened(name: str, folder: Path) -> Path:
    """Unpack a home into a folder and return its root; commands there need DEID_SECRET to be `SECRET`."""
    with tarfile.open(_HERE / f"{name}.tar.xz") as packed:
        packed.extractall(folder, filter="data")
    return folder / "deid"


def packed(name: str, root: Path, places: Iterable[str]) -> Path:
    """Pack a home that was just made, without the places of this machine in its event log; return the archive."""
    for database in root.glob("home/**/*.db"):
        _forget(database, places)
    archive = _HERE / f"{name}.tar.xz"
    with tarfile.open(archive, "w:xz", preset=9) as into:
        for path in sorted(root.rglob("*")):
            within = str(path.relative_to(root))
            if path.is_file() and not within.startswith(LEFT_OUT):
                into.add(path, f"deid/{within}", filter=_nobody)
    return archive


def _nobody(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def _forget(database: Path, places: Iterable[str]) -> None:
    """Replace the places in every text of a database."""
    with sqlite3.connect(database) as connection:
        for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            for _, column, kind, *_ in connection.execute(f"PRAGMA table_info({table})").fetchall():
                if kind.upper().startswith(("TEXT", "VARCHAR")):
                    for place in (*places, os.uname().nodename):
                        connection.execute(f"UPDATE {table} SET {column} = replace({column}, ?, 'here')", [place])
    connection.close()
    with sqlite3.connect(database) as connection:
        connection.execute("VACUUM")
    connection.close()
