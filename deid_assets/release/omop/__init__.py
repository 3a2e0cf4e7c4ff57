"""A published release as an OMOP CDM 5.4: made of its files alone, and read back against them.

- `columns.py`: which column of the release is what in the CDM, by the policy that the manifest shows;
- `tables.py`: the tables of the CDM as queries;
- `reading_back.py`: what was written is compared with the release as a whole;
- `export.py`: a verified release becomes a folder of tables, or nothing is written.
"""
