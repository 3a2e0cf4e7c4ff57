"""Sources that accepted a threshold, as the determination cites them."""

HERITAGE = (
    "El Emam K, Arbuckle L, Koru G, et al. De-identification methods for open health data: the case of the Heritage Health "
    "Prize claims dataset. J Med Internet Res 2012;14(1):e33"
)
OWNERS_DECIDE = "No source gives a threshold; the owners of the policy set it, and the expert judges it."
MARKETER = "Dankar FK, El Emam K. A method for evaluating marketer re-identification risk. EDBT/ICDT Workshops 2010"
SAFE_HARBOR = (
    "Malin B, Benitez K, Masys D. Never too old for anonymity. J Am Med Inform Assoc 2011;18(1):3-10: no more risk than Safe "
    "Harbor leaves"
)
K_ANONYMITY = "Sweeney L. k-Anonymity: a model for protecting privacy. Int J Uncertain Fuzziness Knowl-Based Syst 2002;10(5)"
COLUMNS = (
    "Article 29 Working Party, Opinion 05/2014: singling out, linking, inference; 45 CFR 164.514(b)(2): identifiers. The "
    "numbers are the product's"
)
