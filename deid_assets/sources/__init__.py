"""Sources: adapters from a delivery, as it was received, to the canonical members and claims tables.

`delivery` says what a delivery is and how a policy describes its source; `files` and `csv_files` read files as they
are; `tables` and `desynpuf` lay them out under canonical names and `layout` reads their cells; `rules` says what a row
must satisfy, `quarantine` keeps those that do not; `intake` puts these together and `report` says what came of it.
"""
