"""Sources: adapters from a delivery, as received, to the canonical members and claims tables.

`delivery` defines a delivery and how a policy describes its source. `files` and `csv_files` read files unchanged.
`tables` and `desynpuf` map them to canonical names, and `layout` reads their cells and defines what a row
must satisfy; `quarantine` keeps rows that do not. `intake` combines these, and `report` summarizes the result.

`census` reads published populations, and `cohort` a cohort that is compared with them.
"""
