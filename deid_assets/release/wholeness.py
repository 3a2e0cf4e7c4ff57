"""What a home keeps of its releases and rejections, compared byte by byte with what registry and manifests say of it.

Every decision is preceded by a comparison of the registry, the list of opt-outs and what waits with the journal. This one
reads every file of every release, and is made before a backup, before a restored home is used, and on request.
"""

from collections.abc import Iterator

from deid_assets.errors import ReleaseError
from deid_assets.release.lineage.published import published_release
from deid_assets.release.publication.recovery import REGISTRY
from deid_assets.release.publication.verification import MANIFEST, TRUSTED, verify
from deid_assets.release.registry.chain import Registry
from deid_assets.release.registry.entries import Rejection
from deid_assets.store.digests import bytes_digest
from deid_assets.store.home import Home
from deid_assets.store.reading import regular_bytes


def incomplete(home: Home) -> Iterator[str]:
    """Say what is missing or changed, each as a sentence without a full stop.

    Later releases are compared with one that was withdrawn, too. One that was not and whose folder is gone is told by the
    journal.
    """
    chain = Registry(home.releases / REGISTRY).chain()
    for entry in chain.entries:
        folder = home.releases / entry.policy / f"{entry.number:04d}"
        if chain.withdrawal_of(entry.policy, entry.number) is not None or (folder / MANIFEST).is_file():
            exact = home.store / "manifests" / entry.policy / f"{entry.number:04d}.certificate.json"
            try:
                found = [*published_release(home, folder).problems]
                failures = verify(folder, None, exact_certificate=exact).failures
                found += [f"{check.name}: {check.reason}" for check in failures if check.name != TRUSTED]
            except ReleaseError as error:
                found = [str(error)]
            if found:
                yield (
                    f"release {entry.policy}/{entry.number:04d} is not as it was published: {'; '.join(found)}; put it back "
                    "from a backup, because later releases are compared with it"
                )
    for line in chain.lines:
        if isinstance(line, Rejection):
            file = home.store / "manifests" / line.policy / f"{line.number:04d}.rejected.json"
            try:
                is_there = bytes_digest(regular_bytes(file)) == line.record
            except ReleaseError:
                is_there = False
            if not is_there:
                yield (
                    f"store/manifests/{line.policy}/{file.name}, which says who rejected a release and why, is missing or was "
                    "changed: put it back from a backup"
                )
