"""Tables 3 and 4 of Malin, Benitez and Masys (2011), as printed."""

from itertools import product

import pandas as pd

from deid_assets.methods.demographics.measures import PUBLISHED
from deid_assets.methods.demographics.policies import published_alternatives

COHORTS = {"G_DEM": 3616, "R_CAT": 2646, "Y_PAD": 3412, "N_T2D": 3383, "V_QRS": 2983, "N_QRS": 149, "V_T2D": 2015}

TABLE_3 = """
0.117 0.032 0.131 0.011 0.030 0.012 0.191
0 0 0 0 0 0 0
0 0.010 0.009 0 0 0 0
0.117 0.032 0.131 0.010 0.028 0.010 0.191
0 0.076 0.088 0 0 0 0
100.000 87.302 89.918 26.369 36.943 100.000 95.533
"""

TABLE_4 = """
0.84* 0.03 0.04 <0.01 0.02 0.01 0.12
0.27* 0.02 0.03 <0.01 0.01 <0.01 0.05
0.24* 0.01 <0.01 <0.01 <0.01 <0.01 0.02
0.12* 0.01 0.01 <0.01 <0.01 <0.01 0.03
0.01 0.03 <0.01 <0.01 <0.01 <0.01 0.01
0.08* 0 0 0 0 0 0
0.06* 0 0 0 0 0 0
0.06* 0 0 0 0 0 0
0 0 0 0 0 0 0
0 0 0 0 0 0 0
0.52* <0.01 0 0 0 0 0.01*
0.11* 0.01 0 0 0 0 0
0.10* 0 0 0 0 0 0
0.03* 0 0 0 0 0 0
0.02* 0 0 0 0 0 0
0.84* 0.03 0.04 <0.01 0.01 0.01 0.12
0.27* 0.01 0.02 <0.01 0.01 <0.01 0.05
0.24* <0.01 0.01 <0.01 <0.01 <0.01 0.02
0.12* 0.01 0.01 <0.01 <0.01 0 0.02
0.01 <0.01 <0.01 <0.01 <0.01 0 0.01
1.94* 0.04 0 0 0 0 0.05*
0.39* 0.04 0 0 0 0 0
0.36* 0 0 0 0 0 0
0.17* 0 0 0 0 0 0
0.11* 0 0 0 0 0 0
100 93.5* 90.4* 26.5* 36.9 100 95.5
58.3 16.7 10.5 7.87 7.88 4.70 55.1
58.3 16.7 10.5 3.98 7.88 4.70 55.1
48.2 4.61 7.74 4.83 5.06 0 27.9
48.2 4.61 7.68 1.58 4.96 0 27.8
"""


def printed():
    """policy | group | measure | percent, as printed; Safe Harbor first."""
    rows = []
    alternatives = [policy.name for policy in published_alternatives()]
    tables = ((TABLE_3, product(PUBLISHED, ["Safe Harbor"])), (TABLE_4, product(PUBLISHED, alternatives)))
    for text, names in tables:
        for line, (measure, policy) in zip(text.strip().splitlines(), names, strict=True):
            rows += [(policy, cohort, measure.name, percent) for cohort, percent in zip(COHORTS, line.split(), strict=True)]
    return pd.DataFrame(rows, columns=["policy", "group", "measure", "percent"])
