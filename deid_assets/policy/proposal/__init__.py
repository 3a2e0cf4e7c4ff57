"""A policy proposed from a delivery: look at its tables, recognize their layout, propose, write.

`looking` reads shapes and counts and forgets the values. `layouts` recognizes tables by their headers. `claims` and `flat` turn
looks into the text of a policy, and `writing` writes it once `policy check` accepts it.
"""
