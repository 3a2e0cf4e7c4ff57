"""Where a release comes from, according to the event log, and whether the manifest says the same.

- `graph.py`: every materialization that a release was made from, and which was made from which, without Dagster;
- `columns.py`: which columns of the delivery a published column derives from;
- `published.py`: a release as its folder, its manifest and its dictionary tell of it;
- `audit.py`: all of it in one document, and where the event log lacks what the manifest says, or contradicts it;
- `openlineage.py`: the same as an event of OpenLineage.
"""
