"""Safe Harbor (45 CFR 164.514(b)(2)): the eighteen identifiers, the rules that let parts of them stand, and what breaks them.

`identifiers` names the identifiers and the roles of columns. `rules` gives the SQL of what Safe Harbor leaves of a value.
`findings` says which column of a table breaks which element. `scan` looks for identifiers in columns that should have none.
All results are counts; no value of a person leaves the store (methods#safe-harbor).
"""
