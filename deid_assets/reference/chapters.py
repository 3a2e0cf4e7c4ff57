"""Chapters of ICD-9-CM: the coarsest groups of diagnosis codes.

Source: National Center for Health Statistics, International Classification of Diseases, Ninth Revision, Clinical Modification:
seventeen chapters, and the supplementary classifications of factors (V) and external causes (E).
"""

from deid_assets.reference.codes import is_icd9, plain_code

CHAPTERS: tuple[tuple[str, str, str, str], ...] = (
    ("1", "001", "139", "Infectious and parasitic diseases"),
    ("2", "140", "239", "Neoplasms"),
    ("3", "240", "279", "Endocrine, nutritional and metabolic diseases, and immunity disorders"),
    ("4", "280", "289", "Diseases of the blood and blood-forming organs"),
    ("5", "290", "319", "Mental disorders"),
    ("6", "320", "389", "Diseases of the nervous system and sense organs"),
    ("7", "390", "459", "Diseases of the circulatory system"),
    ("8", "460", "519", "Diseases of the respiratory system"),
    ("9", "520", "579", "Diseases of the digestive system"),
    ("10", "580", "629", "Diseases of the genitourinary system"),
    ("11", "630", "679", "Complications of pregnancy, childbirth, and the puerperium"),
    ("12", "680", "709", "Diseases of the skin and subcutaneous tissue"),
    ("13", "710", "739", "Diseases of the musculoskeletal system and connective tissue"),
    ("14", "740", "759", "Congenital anomalies"),
    ("15", "760", "779", "Certain conditions originating in the perinatal period"),
    ("16", "780", "799", "Symptoms, signs, and ill-defined conditions"),
    ("17", "800", "999", "Injury and poisoning"),
    ("V", "V01", "V91", "Factors influencing health status and contact with health services"),
    ("E", "E000", "E999", "External causes of injury and poisoning"),
)
"""Number, first and last category, and title."""


def category(code: str) -> str:
    """Return the category of a diagnosis code, its three digits; of an external cause, E and three digits.

    Examples
    --------
    >>> category("428.0"), category("V5789"), category("E8889")
    ('428', 'V57', 'E888')
    """
    plain = plain_code(code)
    return plain[: 4 if plain.startswith("E") else 3]


def chapter(code: str) -> str | None:
    """Return the number of a code's chapter; None if it is no code, or in no chapter.

    Examples
    --------
    >>> chapter("428"), chapter("V57"), chapter("E888"), chapter("000"), chapter("heart")
    ('7', 'V', 'E', None, None)
    """
    if not is_icd9(code):
        return None
    own = category(code)
    return next((number for number, first, last, _ in CHAPTERS if len(first) == len(own) and first <= own <= last), None)
