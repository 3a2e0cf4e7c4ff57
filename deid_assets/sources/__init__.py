"""Sources: adapters from a delivery, as it was received, to the canonical members and claims tables.

`delivery` says what a delivery is and how a policy describes its source, `files` reads files, `tables` and `desynpuf`
lay them out as canonical columns, `rules` says what a row must satisfy, and `intake` puts these together.
"""
