"""Where a release comes from, according to the event log, and whether the manifest says the same.

- `records.py`: what the event log recorded of a materialization, a check and a run, without Dagster;
- `graph.py`: every materialization that a release was made from, and which was made from which;
- `columns.py`: which columns of the delivery a published column derives from;
- `witness.py`: where the event log lacks what the manifest says, or contradicts it;
- `audit.py`: all of it in one document.
"""
