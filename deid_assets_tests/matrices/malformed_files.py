"""Files that are not what their names say: CSV tables, plain and packed, links, pipes and folders."""

import gzip
import os
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path

from deid_assets_tests.matrices.deliveries import CLAIMS, VALUE, claim_row, write_claims
from deid_assets_tests.matrices.malformed_inputs import Case

_NO_HEADER = "unreadable file: the first line is not a header in UTF-8"


def _bytes(change: Callable[[bytes], bytes], file: str = "claims.csv") -> Callable[[Path], None]:
    """Change the content of a file."""
    return lambda folder: (folder / file).write_bytes(change((folder / file).read_bytes())) and None


def _lines(change: Callable[[list[bytes]], list[bytes]], file: str = "claims.csv") -> Callable[[Path], None]:
    return _bytes(lambda content: b"\n".join(change(content.split(b"\n"))), file)


def _encoded(encoding: str) -> Callable[[bytes], bytes]:
    return lambda content: content.decode().encode(encoding)


def _cell(line: int, text: bytes, column: int = 11) -> Callable[[list[bytes]], list[bytes]]:
    """Replace a cell; the twelfth column is read by nobody."""

    def change(lines: list[bytes]) -> list[bytes]:
        cells = lines[line].split(b",")
        cells[column] = text
        return [*lines[:line], b",".join(cells), *lines[line + 1 :]]

    return change


def _instead(make: Callable[[Path], object], file: str = "claims.csv") -> Callable[[Path], None]:
    """Put something else in the place of a file."""

    def breaks(folder: Path) -> None:
        (folder / file).unlink()
        make(folder / file)

    return breaks


def _moved(folder: Path) -> Path:
    """The good file, beside the delivery rather than in it."""
    return (folder / "claims.csv").rename(folder.parent / f"{folder.name}.moved")


def _linked(folder: Path) -> None:
    (folder / "claims.csv").symlink_to(_moved(folder))


def _linked_inside(folder: Path) -> None:
    (folder / "own.csv").write_bytes((folder / "claims.csv").read_bytes())
    (folder / "claims.csv").unlink()
    (folder / "claims.csv").symlink_to("own.csv")


def _linked_folder(folder: Path) -> None:
    (folder / "more").symlink_to(folder.parent)


def _link_to(folder: Path) -> Path:
    link = folder.with_name(f"{folder.name}-link")
    link.symlink_to(folder)
    return link


def _socket(path: Path) -> None:
    # The path of a socket may not be long.
    with tempfile.TemporaryDirectory() as short, socket.socket(socket.AF_UNIX) as bound:
        bound.bind(f"{short}/s")
        os.rename(f"{short}/s", path) if os.stat(short).st_dev == os.stat(path.parent).st_dev else os.mkfifo(path)


def _pattern_beside(folder: Path) -> None:
    """A name that reads as a pattern, which all files would match."""
    (folder / "claims.csv").rename(folder / "claims?.csv")
    (folder / "claimsX.txt").write_text("no table")


def _two_files(name: str) -> Callable[[Path], None]:
    def breaks(folder: Path) -> None:
        rows = [claim_row(n) for n in range(CLAIMS)]
        write_claims(folder, rows[:20])
        (folder / "claims.csv").rename(folder / name)
        write_claims(folder, rows[20:])

    return breaks


def _packed(change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    return _bytes(change, "claims.csv.gz")


def _flipped(content: bytes, at: int) -> bytes:
    place = at % len(content)
    return content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1 :]


def _closed_folder(folder: Path) -> None:
    (folder / "closed").mkdir()
    (folder / "closed").chmod(0)


# Nothing is closed to root, which then takes the delivery in.
_ROOT = os.geteuid() == 0
_CLOSED_FILE = () if _ROOT else ("claims.csv: unreadable file: it cannot be opened",)
_CLOSED_FOLDER = () if _ROOT else ("closed: unreadable folder: it cannot be opened",)

_BOMB = gzip.compress(b"no,member\n" + b"0" * (1 << 27), compresslevel=6, mtime=0)
_GZIP = "claims.csv.gz: unreadable file: not a gz file, damaged"

FILES = (
    Case("as it should be", "csv", lambda folder: None),
    Case("no claims", "csv", lambda folder: (folder / "claims.csv").unlink(), ("claims*.csv: missing file",)),
    Case("no members", "csv", lambda folder: (folder / "members.csv").unlink(), ("members.csv: missing file",)),
    Case("no file at all", "csv", lambda folder: [file.unlink() for file in folder.iterdir()] and None,
         ("members.csv: missing file",)),
    Case("no folder", "csv", lambda folder: folder / "nowhere", ("missing file or folder",)),
    Case("the folder given twice", "csv", lambda folder: [folder, folder], ("given twice",)),
    Case("a folder and a file of it", "csv", lambda folder: [folder, folder / "claims.csv"], ("given twice",)),
    Case("empty claims", "csv", _bytes(lambda content: b""), ("claims.csv: empty file",)),
    Case("empty members", "csv", _bytes(lambda content: b"", "members.csv"), ("members.csv: empty file",)),
    Case("blanks only", "csv", _bytes(lambda content: b"   \n \n"), ("claims.csv: missing column no",)),
    Case("a header only", "csv", _lines(lambda lines: lines[:1]), ("claims.csv: no rows",)),
    Case("a header without line end", "csv", _bytes(lambda content: content.split(b"\n")[0]), ("claims.csv: no rows",)),
    Case("no header", "csv", _lines(lambda lines: lines[1:]), ("claims.csv: missing column",)),
    Case("a missing column", "csv", _bytes(lambda content: content.replace(b",place,", b",somewhere,", 1)),
         ("claims.csv: missing column place",)),
    Case("a header in capitals", "csv", _lines(lambda lines: [lines[0].upper(), *lines[1:]]), ("claims.csv: missing column",)),
    Case("a column twice", "csv", _bytes(lambda content: content.replace(b",note", b",day", 1)),
         ("claims.csv: column day (to be read as service_date) occurs twice",)),
    Case("an unread column twice", "csv", _bytes(lambda content: content.replace(b",note,paid", b",note,paid,note", 1)
         .replace(b",\n", b",,\n"))),
    Case("a name with blanks", "csv", _bytes(lambda content: content.replace(b",day,", b", day,", 1)),
         ("missing column day (to be read as service_date)",)),
    Case("semicolons", "csv", _bytes(lambda content: content.replace(b",", b";")), ("claims.csv: missing column",)),
    Case("tabs", "csv", _bytes(lambda content: content.replace(b",", b"\t")), ("claims.csv: missing column",)),
    Case("UTF-16", "csv", _bytes(_encoded("utf-16")), (f"claims.csv: {_NO_HEADER}",)),
    Case("UTF-16 without mark", "csv", _bytes(_encoded("utf-16-le")), ("claims.csv: missing column",)),
    Case("UTF-16, big end first", "csv", _bytes(lambda content: b"\xfe\xff" + _encoded("utf-16-be")(content)),
         (f"claims.csv: {_NO_HEADER}",)),
    Case("UTF-32", "csv", _bytes(_encoded("utf-32")), (f"claims.csv: {_NO_HEADER}",)),
    Case("UTF-7 mark", "csv", _bytes(lambda content: b"+/v8-" + content), ("claims.csv: missing column no",)),
    Case("EBCDIC", "csv", _bytes(_encoded("cp500")), ("claims.csv",)),
    Case("a header in Latin-1", "csv", _bytes(lambda content: content.replace(b"note", b"n\xf6te", 1)), (_NO_HEADER,)),
    Case("a row in Latin-1", "csv", _lines(_cell(5, b"M\xfcller", 10)), quarantined=1),
    Case("rows in Latin-1", "csv", _bytes(lambda content: content.replace(b",4280,", b",4280\xe9,")),
         ("claims.csv: 40 lines: not UTF-8",)),
    Case("a mark of UTF-8", "csv", _bytes(lambda content: b"\xef\xbb\xbf" + content)),
    Case("two marks of UTF-8", "csv", _bytes(lambda content: b"\xef\xbb\xbf" * 2 + content), ("missing column no",)),
    Case("line ends of Windows", "csv", _bytes(lambda content: content.replace(b"\n", b"\r\n"))),
    Case("line ends of old Macs", "csv", _bytes(lambda content: content.replace(b"\n", b"\r"))),
    Case("mixed line ends", "csv", _lines(lambda lines: [line + b"\r" * (n % 2) for n, line in enumerate(lines[:-1])] + [b""])),
    Case("a NUL in a cell", "csv", _lines(_cell(5, b"a\0b"))),
    Case("a NUL in an identifier", "csv", _lines(_cell(5, VALUE.encode() + b"-4\0", 1)), quarantined=1),
    Case("nothing but NULs", "csv", _bytes(lambda content: b"\0" * 4096), ("claims.csv: missing column",)),
    Case("random bytes", "csv", _bytes(lambda content: bytes((n * 167 + 13) % 256 for n in range(9999))), ("claims.csv",)),
    Case("a cell of three million characters", "csv", _lines(_cell(5, b"x" * 3_000_000)), quarantined=1),
    Case("a header of three million characters", "csv", _bytes(lambda content: b"x" * 3_000_000 + b"," + content),
         ("claims.csv",)),
    Case("a file of one line", "csv", _bytes(lambda content: content.replace(b"\n", b",") * 900), ("claims.csv",)),
    Case("an unclosed quote in the last row", "csv", _lines(_cell(40, b'"open')), quarantined=1),
    Case("an unclosed quote in the first row", "csv", _lines(_cell(1, b'"open')), ("claims.csv", "lines", "quote")),
    Case("an unclosed quote in the header", "csv", _bytes(lambda content: b'"' + content), ("claims.csv: missing column",)),
    Case("a quote inside a cell", "csv", _lines(_cell(5, b'5" pipe'))),
    Case("a line break inside quotes", "csv", _lines(_cell(5, b'"two\nlines"'))),
    Case("a row too short", "csv", _lines(lambda lines: [*lines[:5], b"c4,x", *lines[6:]]), quarantined=1),
    Case("rows too short", "csv", _lines(lambda lines: [lines[0], *(line[:30].rpartition(b",")[0] for line in lines[1:])]),
         ("claims.csv: 40 lines: too few fields",)),
    Case("a row too long", "csv", _lines(lambda lines: [*lines[:5], lines[5] + b",1,2", *lines[6:]]), quarantined=1),
    Case("rows too long", "csv", _lines(lambda lines: [lines[0], *(line and line + b",1" for line in lines[1:])]),
         ("claims.csv: 40 lines: too many fields",)),
    Case("a name without rows of that width", "csv", _lines(lambda lines: [lines[0] + b",extra", *lines[1:]]),
         ("claims.csv: 40 lines: too few fields",)),
    Case("blank lines", "csv", _bytes(lambda content: content.replace(b"\n", b"\n\n"))),
    Case("a cut last line", "csv", _bytes(lambda content: content[:-20]), quarantined=1),
    Case("no end of the last line", "csv", _bytes(lambda content: content[:-1])),
    Case("a line of totals", "csv", _bytes(lambda content: content + b"40 rows\n"), quarantined=1),
    Case("JSON", "csv", _bytes(lambda content: b'{"no": [1, 2]}\n'), ("claims.csv: missing column",)),
    Case("HTML", "csv", _bytes(lambda content: b"<!DOCTYPE html>\n<p>Sign in</p>\n"), ("claims.csv: missing column",)),
    Case("a gzip file by the name of a table", "csv", _bytes(gzip.compress), (f"claims.csv: {_NO_HEADER}",)),
    Case("a folder in the place of a file", "csv", _instead(Path.mkdir), ("claims*.csv: missing file",)),
    Case("a spreadsheet beside", "csv", lambda folder: (folder / "claims.xlsx").write_bytes(b"PK") and None),
    Case("a file of an unknown format", "csv", lambda folder: [folder / "claims.csv", folder / "members.csv"]),
    Case("a link out of the delivery", "csv", _linked, ("claims.csv: a symbolic link",)),
    Case("a link inside the delivery", "csv", _linked_inside, ("claims.csv: a symbolic link",)),
    Case("a link to nothing", "csv", _instead(lambda path: path.symlink_to("nowhere")), ("claims.csv: a symbolic link",)),
    Case("a link to itself", "csv", _instead(lambda path: path.symlink_to(path.name)), ("claims.csv: a symbolic link",)),
    Case("a link to a device", "csv", _instead(lambda path: path.symlink_to("/dev/zero")), ("claims.csv: a symbolic link",)),
    Case("a linked folder", "csv", _linked_folder, ("more: a symbolic link",)),
    Case("a link beside that nobody reads", "csv", lambda folder: (folder / "notes").symlink_to("/etc/hostname"),
         ("notes: a symbolic link",)),
    Case("a link to the delivery", "csv", _link_to, ("-link: a symbolic link",)),
    Case("a pipe", "csv", _instead(os.mkfifo), ("claims.csv: not a file or folder",)),
    Case("a pipe in a folder", "csv", lambda folder: (folder / "deep").mkdir() or os.mkfifo(folder / "deep" / "pipe"),
         ("deep/pipe: not a file or folder",)),
    Case("a socket", "csv", _instead(_socket), ("claims.csv: not a file or folder",)),
    Case("a device", "csv", lambda folder: Path("/dev/null"), ("null: not a file or folder",)),
    Case("a file that may not be opened", "csv", lambda folder: (folder / "claims.csv").chmod(0), _CLOSED_FILE),
    Case("a folder that may not be opened", "csv", _closed_folder, _CLOSED_FOLDER),
    Case("a name that is a pattern", "csv", _pattern_beside),
    Case("a name that is an address", "csv",
         lambda folder: (folder / "claims.csv").rename(folder / "claimshttp:.csv") and None),
    Case("two files of claims", "csv", _two_files("claims_2.csv")),
    Case("two files of which one is a pattern of both", "csv", _two_files("claims*.csv")),
    Case("two files of one content", "csv", lambda folder: (folder / "claims2.csv").write_bytes(
        (folder / "claims.csv").read_bytes()) and None, ("column no: 40 lines: duplicate claim",)),
    Case("as it should be", "gzip", lambda folder: None),
    Case("a wrong checksum", "gzip", _packed(lambda content: _flipped(content, -6)), (_GZIP,)),
    Case("a wrong length", "gzip", _packed(lambda content: _flipped(content, -2)), (_GZIP,)),
    Case("a damaged middle", "gzip", _packed(lambda content: _flipped(content, len(content) // 2)), (_GZIP,)),
    Case("a cut end", "gzip", _packed(lambda content: content[:-9]), (_GZIP,)),
    Case("a cut half", "gzip", _packed(lambda content: content[: len(content) // 2]), (_GZIP,)),
    Case("a cut header", "gzip", _packed(lambda content: content[:5]), (_GZIP,)),
    Case("an empty file", "gzip", _packed(lambda content: b""), ("claims.csv.gz: empty file",)),
    Case("nothing packed", "gzip", _packed(lambda content: gzip.compress(b"")), ("claims.csv.gz: empty file",)),
    Case("not packed", "gzip", _packed(gzip.decompress), (_GZIP,)),
    Case("packed twice", "gzip", _packed(gzip.compress), (f"claims.csv.gz: {_NO_HEADER}",)),
    Case("a tail that is not packed", "gzip", _packed(lambda content: content + VALUE.encode()), (_GZIP,)),
    Case("another packed file behind it", "gzip",
         _packed(lambda content: content + gzip.compress(b"40 rows\n")), quarantined=1),
    Case("a bomb", "gzip", _packed(lambda content: _BOMB), ("claims.csv.gz: unreadable file: far larger when unpacked",)),
    Case("an unknown method", "gzip", _packed(lambda content: content[:2] + b"\x07" + content[3:]), (_GZIP,)),
    Case("rows in Latin-1", "gzip",
         _packed(lambda content: gzip.compress(gzip.decompress(content).replace(b"4280", b"42\xe980"))),
         ("claims.csv.gz: 40 lines: not UTF-8",)),
)  # fmt: skip
