"""What is published, and the proof that it may be.

- `gate/`: measures the staged files again, and refuses whatever is missing or different;
- `manifest/`: how a release was made and judged, in a restricted and a public edition;
- `publication/`: staging, atomic publication, crash recovery, offline verification;
- `lineage/`: what a release was made from, and whether the event log agrees with the manifest;
- `registry/`: the append-only list of all releases, chained by hashes;
- `keys.py` and `keyring.py`: the signing key, and the secret from which every random choice is derived;
- `cumulative.py`: earlier releases of the same population;
- `event_log.py`: what Dagster recorded about checks and inputs. No other module here imports Dagster.
"""
