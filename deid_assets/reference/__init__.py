"""Published code tables and their look-ups.

Every table is a CSV file of this package that a person who knows the codes can read and correct: a range of codes, the
group that it belongs to, where the row comes from, and a note. `origin` says how far a row can be trusted:

* `printed`: stands in the published appendix (El Emam et al. 2012, Multimedia Appendix, sections 2 and 7-10), or in
  the publication that the module names;
* `precedence answer`: printed in words such as "some", "most" or "misc.", and read by us in one definite way;
* `completion`: ours; the appendix says nothing, or names a kind of condition without its codes.

The table of sensitive codes says in `code_list` and `source` what the others say in `origin`; the table of ICD-10-CM has a row
for each code, and origins of its own (`icd10cm`).

A look-up takes the distinct codes of a delivery, without nulls, and returns one row per code (a small frame to register
in DuckDB and join), so that no claim passes through Python. Codes are compared without dots and blanks, in upper case, and a
diagnosis of ICD-10-CM has the prefix `icd10cm:` (`codes`); the frame returns each code as it was given, which is what
the join needs.
"""
