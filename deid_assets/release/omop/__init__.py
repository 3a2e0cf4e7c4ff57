"""A published release as an OMOP CDM 5.4: made of its files alone, and read back against them.

- `columns.py`: which column of the release is what in the CDM, by the policy that the manifest shows;
- `tables.py`: the tables of the CDM as queries;
- `export.py`: a verified release becomes a folder of tables, each cell of which is found again.
"""
