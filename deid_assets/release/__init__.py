"""What leaves the building, and the proof that it may: evidence, publication, manifest, registry, verification.

Belongs here: everything that decides about, writes, signs, registers or verifies a release. The storage side:

- `digests`: SHA-256 of files, of rows in any order, of columns, of a canonical JSON text;
- `keys`: the signing key, and the secret from which every random choice is derived;
- `evidence`: measurements compared with thresholds, and `judge`, which says why a release is refused;
- `durable`: writes that survive a crash, and locks that do not;
- `export`: tables as files that are byte for byte the same for the same rows;
- `registry`: the append-only, hash-chained list of releases;
- `manifest`: what a release is made of and how it was judged, in a restricted and a public edition;
- `publication`: staging, atomic publication and recovery after a crash;
- `verification`: what an auditor runs, offline.

Nothing here imports Dagster, except the one module that reads its event log.
"""
