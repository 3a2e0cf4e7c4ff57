"""What leaves the building, and the proof that it may.

- `gate/`: measures the staged files again, and refuses what is missing or different;
- `manifest/`: what a release is made of and how it was judged, in a restricted and a public edition;
- `publication/`: staging, atomic publication, recovery after a crash, verification offline;
- `registry/`: the append-only list of all releases, chained by hashes;
- `keys.py` and `keyring.py`: the signing key, and the secret from which every random choice is derived;
- `cumulative.py`: what was released of the same population before;
- `event_log.py`: what Dagster recorded of checks and inputs. No other module here imports Dagster.
"""
