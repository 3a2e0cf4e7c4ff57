"""What `deid determination` does: draft the dossier of a release that is in order, and write it."""

from pathlib import Path

from deid_assets.errors import ReleaseError
from deid_assets.release.keyring import signing_key_of
from deid_assets.release.keys import PublicKey
from deid_assets.release.lineage.published import PublishedRelease
from deid_assets.release.publication.verification import MANIFEST, verify_release
from deid_assets.reports.determination import dossier_html, dossier_markdown, dossier_of
from deid_assets.store import durable
from deid_assets.store.digests import bytes_digest, regular_bytes
from deid_assets.store.home import Home


def write_determination(
    home: Home, published: PublishedRelease, folder: Path, expires: str | None, key: PublicKey | None
) -> tuple[Path, Path]:
    """Write the draft as HTML and Markdown, and return where.

    Parameters
    ----------
    key
        The trusted key; None for that of the home.

    Raises
    ------
    ReleaseError
        If the release is not in order, or a file is there already: somebody may have written on in it.
    """
    report = verify_release(published.folder, key or signing_key_of(home).public, home.releases / "registry.jsonl")
    if not report.ok:
        raise ReleaseError(f"nothing is drafted of a release that is not in order:\n{report.text()}")
    if folder.resolve().is_relative_to(home.releases.resolve()):
        raise ReleaseError("the folder of releases contains releases only; choose another folder with --output")
    dossier = dossier_of(published.public, bytes_digest(regular_bytes(published.folder / MANIFEST)), expires)
    page = folder / f"{published.policy}-{published.number:04d}-determination.html"
    text = page.with_suffix(".md")
    for file, content in ((page, dossier_html(dossier)), (text, dossier_markdown(dossier))):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            durable.create(file, content, 0o644)
        except FileExistsError:
            raise ReleaseError(f"{file} is there already; move it away, or choose another folder with --output") from None
        except OSError as error:
            raise ReleaseError(f"{file} cannot be written: {error.strerror}") from None
    return page, text
