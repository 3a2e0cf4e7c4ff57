"""Codes that make a member sensitive (methods#removal)."""

import re
from collections import Counter
from importlib import resources

import pytest

import deid_assets
from deid_assets.reference.codes import ICD10CM_PREFIX, is_cpt_or_hcpcs, plain_code
from deid_assets.reference.groups import is_procedure
from deid_assets.reference.sensitive import SENSITIVE_SETS, drug_sets, sensitive_codes
from deid_assets.reference.tables import read_table


def found(codes, kind, code_list="literal", rare_visible=False) -> set[str]:
    return set(sensitive_codes(codes, kind, code_list, rare_visible)["code"])


@pytest.mark.parametrize(
    "code",
    [
        "042", "0420", "043", "044.9", "630", "63390", "63400", "6391", "99550", "99559", "99581", "99583", "E9500",
        "E959", "E960", "E9689", "V1541", "2910", "2929", "30300", "30590", "3051", "3029", "317", "3180", "319",
        "V501", "V510", "V518",
    ],
)  # fmt: skip
def test_literal_diagnoses(code):
    assert found([code], "diagnosis") == {code}


@pytest.mark.parametrize(
    "code",
    [
        "0410", "0450", "07953", "V08", "79571", "640", "6290", "9956", "99580", "99584", "99585", "99586", "E949",
        "E970", "V153", "2900", "2930", "306", "301", "316", "320", "V500", "V502", "V52", "4280", "897", "8970",
    ],
)  # fmt: skip
def test_codes_outside_the_literal_list(code):
    assert found([code], "diagnosis") == set()


def test_the_extended_list_adds_what_the_literal_one_omits():
    omitted = ["07953", "V08", "79571", "99580", "99584", "99585"]
    assert found([*omitted, "4280", "042"], "diagnosis", "extended") == {*omitted, "042"}
    assert found(["59866", "59840"], "procedure", "extended") == {"59866", "59840"}
    assert found(["54", "55", "56", "57", "11"], "place", "extended") == {"54", "55", "56", "57"}


def test_literal_procedures():
    sensitive = {
        "55970", "55980", "59100", "59812", "59820", "59821", "59830", "59840", "59841", "59850", "59851", "59852",
        "59855", "59856", "59857", "897",
    }  # fmt: skip
    others = {"55920", "59101", "59151", "59853", "59866", "59400", "99213", "89700", "8970", "0897", "896", "J8970"}
    assert found(sorted(sensitive | others), "procedure") == sensitive


def test_chapter_897_matches_as_a_whole_and_in_the_cpt_column_only():
    assert found(["897"], "procedure") == {"897"}
    assert found(["897", "8970", "89701"], "diagnosis", "extended", True) == set()
    assert found(["894", "895", "896", "897"], "procedure", "extended") == {"894", "895", "896", "897"}


def test_chapter_897_would_be_gone_were_three_digit_codes_dropped_first():
    assert not is_procedure("897")
    assert found(["897"], "procedure") == {"897"}


def test_places_are_those_of_the_names():
    assert found(["54", "55", "56", "57", "51", "11"], "place") == {"54", "55", "57"}


def test_rare_and_visible_diseases_are_an_option_for_diagnoses():
    codes = ["7564", "2377", "23770", "7580", "7583", "7584", "7585", "7586", "75651", "75650", "33520", "3350", "4280"]
    rare = {"7564", "2377", "23770", "7580", "7583", "7586", "75651", "33520"}
    assert found(codes, "diagnosis", rare_visible=True) == rare
    assert found(codes, "diagnosis", rare_visible=False) == set()
    assert set(sensitive_codes(codes, "diagnosis")["reason"]) == {"rare and visible disease"}
    assert found(["11", "54"], "place", rare_visible=True) == {"54"}


def test_every_rule_has_a_reason_and_says_what_it_means():
    for row in read_table("sensitive_codes.csv"):
        assert row["reason"]
        assert row["meaning"]
        assert row["source"]
        assert row["code_list"] in {"literal", "extended", "rare visible", *SENSITIVE_SETS}
        assert re.fullmatch("prefix|exact|intent [1-6]+|word", row["match"])
        assert row["match"] != "word" or row["kind"] == "drug"
        assert row["system"] in ({"icd9cm", "icd10cm"} if row["kind"] == "diagnosis" else {""})


COMPARED = {
    "diagnosis": {"ICD-9-CM 2012", "ICD-10-CM 2024"},
    "procedure": {
        "HCPCS 2020", "HCPCS 2026", "BETOS 2009-2020", "CMS revenue centers 2023", "CMS redaction of substance use 2022",
        "OPPS 2023", "none found",
    },
    "place": {"CMS places of service 2022"},
    "taxonomy": {"T-MSIS taxonomies 2021", "NUCC 2024", "US Core roles 2019"},
    "drug": {"ATC 2026", "drug names 2025", "none found"},
}  # fmt: skip


def test_every_row_says_what_it_was_compared_with():
    rows = read_table("sensitive_codes.csv")
    assert {kind: {row["compared"] for row in rows if row["kind"] == kind} for kind in COMPARED} == COMPARED
    none = Counter(row["kind"] for row in rows if row["compared"] == "none found")
    assert none == {"drug": 30, "procedure": 11}


def test_the_methods_count_the_rows_by_list():
    text = resources.files(deid_assets).joinpath("docs/methods.md").read_text(encoding="utf-8")
    printed = {
        name: (sensitive, groups) for name, sensitive, groups in re.findall(r"(?m)^\| ([^|`]+) \| (\d*) \| (\d*) \| ", text)
    }
    counts = [Counter(row["compared"] for row in read_table(table)) for table in ("sensitive_codes.csv", "code_groups.csv")]
    for name in counts[0] | counts[1]:
        assert printed[name] == tuple(str(count[name] or "") for count in counts)


def test_each_diagnosis_was_compared_with_the_list_of_its_system():
    for row in read_table("sensitive_codes.csv"):
        if row["kind"] == "diagnosis":
            assert row["compared"] == {"icd9cm": "ICD-9-CM 2012", "icd10cm": "ICD-10-CM 2024"}[row["system"]]


def test_places_are_in_the_list_of_cms(cms_place_codes):
    assert {row["first"] for row in read_table("sensitive_codes.csv") if row["kind"] == "place"} <= set(cms_place_codes)


@pytest.mark.parametrize(
    ("code", "kind", "reason"),
    [
        ("042", "diagnosis", "human immunodeficiency virus (HIV) infection"),
        ("63400", "diagnosis", "pregnancy with abortive outcome"),
        ("E9500", "diagnosis", "abuse, self-inflicted injury or assault"),
        ("30500", "diagnosis", "substance abuse or dependence"),
        ("897", "procedure", "alcohol or drug abuse or dependence"),
        ("55970", "procedure", "intersex surgery"),
        ("55", "place", "substance abuse treatment facility"),
    ],
)
def test_reasons(code, kind, reason):
    assert sensitive_codes([code], kind)["reason"].tolist() == [reason]


def test_dots_and_case_do_not_hide_a_code():
    assert found(["v50.1", "e960.0", " 042 "], "diagnosis") == {"v50.1", "e960.0", " 042 "}


def test_nothing_sensitive_gives_an_empty_frame_with_its_columns():
    frame = sensitive_codes(["4280"], "diagnosis")
    assert list(frame.columns) == ["code", "reason"]
    assert len(frame) == 0


def test_every_rule_names_real_codes(icd9_codes, icd10cm_titles):
    """A misspelt bound would match nothing; E967 and the like count, being within a prefix. CPT and HCPCS have no list here."""
    listed = {"icd9cm": icd9_codes, "icd10cm": list(icd10cm_titles)}
    for row in read_table("sensitive_codes.csv"):
        first, last = plain_code(row["first"]), plain_code(row["last"])
        if row["kind"] == "diagnosis":
            assert any(first <= code[: len(first)] <= last for code in listed[row["system"]]), row["meaning"]
        if row["kind"] == "procedure" and len(first) > 4:
            assert is_cpt_or_hcpcs(first) and is_cpt_or_hcpcs(last)


@pytest.mark.parametrize(("kind", "code_list"), [("herb", "literal"), ("diagnosis", "strict")])
def test_an_unknown_kind_or_list_is_refused(kind, code_list):
    with pytest.raises(ValueError, match=r"not '(herb|strict)'"):
        sensitive_codes([], kind, code_list)


def named(codes: str) -> list[str]:
    return [ICD10CM_PREFIX + code for code in codes.split()]


def found_in(name: str, codes: list[str], kind="diagnosis") -> set[str]:
    """What a set has that no list has."""
    return set(sensitive_codes(codes, kind, None, False, (name,))["code"])


LITERAL = (
    "B20 O0010 O021 O039 Z332 T7411XA T7691XA X710XXA Y079 T1491XA Z9141 "
    "F1020 F1120 F1210 F1310 F1410 F1510 F1610 F17210 F640 F70"
)
EXTENDED = "Z21 R75 B9735 O98711 O9A311 O99310 O99320 Z87890"


def test_literal_and_extended_diagnoses_of_icd10cm_which_a_mapped_list_would_miss():
    others = named("E119 I10 Z3800 F200 F840 Q909 T360X1A Z20828 B2")
    assert found([*named(LITERAL), *named(EXTENDED), *others], "diagnosis") == set(named(LITERAL))
    assert found([*named(LITERAL), *named(EXTENDED), *others], "diagnosis", "extended") == set(named(LITERAL + " " + EXTENDED))


def test_the_lists_of_icd10cm_take_so_many_of_its_codes(icd10cm_codes):
    assert len(found(icd10cm_codes, "diagnosis")) == 2964
    assert len(found(icd10cm_codes, "diagnosis", "extended")) == 3004
    assert len(sensitive_codes(icd10cm_codes, "diagnosis", None, rare_visible=True)) == 285


def test_a_code_of_one_system_is_not_looked_up_in_the_other():
    assert found(["F1020", "B20", "Z21", "icd10cm:042", "icd10cm:V501"], "diagnosis", "extended", True) == set()


def test_the_intent_of_a_poisoning_is_read_as_its_title_says_it(icd10cm_titles):
    poisonings = {
        code: title.lower() for code, title in icd10cm_titles.items() if re.match(r"T(3[6-9]|[45]\d|6[0-5]|71)", code)
    }
    for intent, name in (("intentional self-harm", "mental_health"), ("assault", "abuse")):
        own = {ICD10CM_PREFIX + code for code, title in poisonings.items() if intent in title}
        assert len(own) > 900 and found_in(name, [ICD10CM_PREFIX + code for code in poisonings]) == own
        assert own <= found([ICD10CM_PREFIX + code for code in poisonings], "diagnosis")


def test_rare_and_visible_diseases_of_icd10cm():
    rare = named("E7030 E220 Q770 Q780 Q8501 Q909 Q960 G10 G1221 A309 M349")
    assert found([*rare, *named("E119 Q8740 Q999")], "diagnosis", rare_visible=True) == {*rare, *named("Q8740")}


SETS = {
    "substance_use": (
        "30400 3050 57120 E8500 V6542", "3051 4280 E9500", "F1020 F1990 K7030 T401X1A T40412D O99310 Z7141 G621",
        "F17210 T402X5A T402X6A K7460 Z87891", "H0020 S0109 J0571 J0574 G2067 G2080 J2315 Q9991 894 0906", "J0592 99213 893",
    ),
    "hiv": (
        "042 V08 07953", "4280 V0179", "B20 Z21 R75 O98711 B9735 Z206 Z114", "Z205 B2", "86703 G0432 G0433 G0435 S0140 J0741",
        "G0434 86704",
    ),
    "reproductive": (
        "09150 63590 V2501", "V270 650", "A5301 A64 O031 Z3009 Z332 N978",
        "Z370 O80 Z3490", "S0190 S0191 59840 58300 J7298", "59400 J1050",
    ),
    "mental_health": (
        "29500 311 V6284 E9500", "2900 29900 3051 317", "F200 F329 F4310 F909 R45851 T1491XA X780XXA T426X2A Z9151",
        "F0390 F1020 F70 F840 T426X1A", "90834 90806 H0040 S9480 0914", "90460 917 913",
    ),
    "abuse": (
        "99550 99581 E9670 V1541 V6121", "99586 V6120", "T7411XA T7692XA Y07410 Z6911 Z91410 O9A311 T401X3A",
        "T730XXA Z630", "", "99213",
    ),
    "genetics": (
        "7580 V8401 V8301", "7590", "Z1501 Z148 Q909 Z315 Z31430", "Q870 Z3141", "81211 S3841 S3870 96040 88262",
        "88305 80053 S3854",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SENSITIVE_SETS)
def test_a_set_takes_codes_of_both_systems_and_procedures_and_leaves_others(name):
    icd9, no_icd9, icd10, no_icd10, procedures, no_procedures = SETS[name]
    assert found_in(name, [*icd9.split(), *no_icd9.split()]) == set(icd9.split())
    assert found_in(name, named(f"{icd10} {no_icd10}")) == set(named(icd10))
    assert found_in(name, [*procedures.split(), *no_procedures.split()], "procedure") == set(procedures.split())


FROM_LISTS = {
    "substance_use": (
        "4320F G0137 G0533 G1028 G2172 G9621 H0026 H0034 T1008 T1011 M1034 M1478 C7900 0078U 0953 1004 1002",
        "97081 9773 E8609", "T519X1A Z0283",
    ),
    "hiv": ("G9242 J0738 J0752 J0799 Q0521 3490F 3498F 4276F C9077 M1368", "", ""),
    "reproductive": (
        "11981 54405 57170 86592 87491 87591 89250 J0725 J7299 L7900 C1813 M1255", "99632 V157 V230 V417",
        "N5311 N980 O0900 T8331XA Z333 Z920 A749",
    ),
    "mental_health": (
        "90865 90899 96130 99492 98978 C7903 G0552 H0030 H2011 J0013 J2427 J2801 M1350 M1380 M1449 2060F 0513 0961 1000",
        "29381 V402 V701 V7109", "F0630 F064 R4681 Z046 Z72810",
    ),
    "abuse": ("99170 G8733", "E9040", ""),
    "genetics": ("81507 83890 89290 G0452 G9143 M1409 M1467 S3818 96041", "7952 V280 V293", "Z0541 Z368A"),
}  # fmt: skip


@pytest.mark.parametrize("name", SENSITIVE_SETS)
def test_codes_that_were_found_by_comparing_with_public_lists(name):
    procedures, icd9, icd10 = FROM_LISTS[name]
    assert found_in(name, procedures.split(), "procedure") == set(procedures.split())
    diagnoses = [*icd9.split(), *named(icd10)]
    assert found_in(name, diagnoses) == set(diagnoses)


@pytest.mark.parametrize(
    "code",
    [
        "80305", "G0480", "G0442", "G0444", "96127", "J2310", "99406", "Q0161", "J0184", "81518", "81025", "S9453", "0925",
        "H0033", "58661",
    ],
)  # fmt: skip
def test_codes_that_the_methods_leave_out_are_in_no_set(code):
    assert sensitive_codes([code], "procedure", "extended", True, SENSITIVE_SETS)["code"].tolist() == []


def test_sets_join_the_lists_and_the_first_list_gives_the_reason():
    codes = named("F1020 K7030 Q909")
    frame = sensitive_codes(codes, "diagnosis", "literal", True, ("substance_use", "genetics"))
    assert frame["reason"].tolist() == ["substance abuse or dependence", "substance use", "rare and visible disease"]
    assert sensitive_codes(codes, "diagnosis", None, False)["code"].tolist() == []


def test_places_of_sets():
    places = ["11", "51", "52", "53", "55", "56", "57", "58"]
    assert found_in("substance_use", places, "place") == {"55", "57", "58"}
    assert found_in("mental_health", places, "place") == {"51", "52", "53", "56"}


def test_taxonomy_codes_of_sets():
    """Those of T-MSIS for substance use (CMS, TAF), all of them."""
    substance_use = [
        "101YA0400X",
        "103TA0400X",
        "163WA0400X",
        "207LA0401X",
        "207QA0401X",
        "207RA0401X",
        "2083A0300X",
        "2084A0401X",
        "2084P0802X",
        "261QM2800X",
        "261QR0405X",
        "276400000X",
        "324500000X",
        "3245S0500X",
    ]
    others = ["207Q00000X", "282N00000X", "261QM1300X"]
    assert found_in("substance_use", [*substance_use, *others], "taxonomy") == set(substance_use)
    assert found_in("mental_health", ["2084P0800X", "103TC0700X", "283Q00000X", *others], "taxonomy") == {
        "2084P0800X", "103TC0700X", "283Q00000X"
    }  # fmt: skip
    reproductive = ["207VC0300X", "207VE0102X", "261QA0006X", "163WR1000X"]
    genetics = ["207SG0201X", "261QG0250X", "246ZG1000X", "170100000X"]
    assert found_in("reproductive", [*reproductive, *genetics, *others], "taxonomy") == set(reproductive)
    assert found_in("genetics", [*reproductive, *genetics, *others], "taxonomy") == set(genetics)
    assert found(["261QM2800X", "324500000X", *others], "taxonomy", "extended") == {"261QM2800X", "324500000X"}


DRUGS = {
    "hiv": ["bictegravir / emtricitabine / tenofovir alafenamide", "LAMIVUDINE", "lopinavir-ritonavir", "ritonavir"],
    "substance_use": ["Buprenorphine HCl; naloxone", "methadone hydrochloride", "naltrexone", "disulfiram"],
    "reproductive": ["mifepristone", "ethinyl estradiol/norgestimate", "clomiphene citrate"],
    "mental_health": ["lithium carbonate", "quetiapine fumarate", "sertraline"],
}
NO_DRUGS = [
    "nirmatrelvir / ritonavir", "methylnaltrexone", "naloxone", "misoprostol", "metformin", "ombitasvir/paritaprevir/ritonavir",
    "hydroxyurea", "sildenafil", "bupropion",
]  # fmt: skip


@pytest.mark.parametrize("name", DRUGS)
def test_drugs_of_a_set_are_found_by_whole_words_of_their_ingredients(name):
    every = [drug for drugs in DRUGS.values() for drug in drugs]
    assert found_in(name, [*every, *NO_DRUGS], "drug") == set(DRUGS[name])


BRANDS = {
    "hiv": ["Truvada", "Biktarvy 50-200-25 MG", "DESCOVY", "Norvir", "cabenuva"],
    "substance_use": ["Suboxone", "Vivitrol", "SUBLOCADE", "Antabuse"],
    "reproductive": ["Mifeprex", "Plan B One-Step", "NuvaRing", "Gonal-F"],
    "mental_health": ["Zyprexa Relprevv", "Prozac", "Invega Sustenna", "Adderall XR"],
}
NO_BRANDS = ["Vemlidy", "Korlym", "Butrans", "Contrave", "Narcan", "Paxlovid", "Relistor", "Viagra"]


@pytest.mark.parametrize(
    ("name", "drugs"),
    [
        ("hiv", ["elsulfavirine", "dapivirine"]),
        ("substance_use", ["calcium carbimide", "levomethadone", "diamorphine"]),
        ("reproductive", ["norethisterone", "ethinylestradiol", "clomifene citrate", "chorionic gonadotropin", "alprostadil"]),
        ("mental_health", ["imipramine", "amfetamine", "flupentixol decanoate", "agomelatine", "tiotixene"]),
    ],
)
def test_ingredients_and_international_names_of_the_atc(name, drugs):
    assert found_in(name, [*drugs, *NO_DRUGS, "prochlorperazine", "nortriptyline", "tryptophan"], "drug") == set(drugs)


@pytest.mark.parametrize("name", BRANDS)
def test_brands_of_a_set_are_found(name):
    every = [brand for brands in BRANDS.values() for brand in brands]
    assert found_in(name, [*every, *NO_BRANDS], "drug") == set(BRANDS[name])


def test_the_literal_list_has_the_brands_of_its_conditions():
    every = [brand for brands in BRANDS.values() for brand in brands]
    assert found([*every, *NO_BRANDS], "drug") == {*BRANDS["hiv"], *BRANDS["substance_use"], "Mifeprex"}


def test_the_literal_list_has_the_drugs_of_its_conditions():
    every = [drug for drugs in DRUGS.values() for drug in drugs]
    listed = {*DRUGS["hiv"], *DRUGS["substance_use"], "mifepristone"}
    assert found([*every, *NO_DRUGS], "drug") == listed == found([*every, *NO_DRUGS], "drug", "extended")


def test_every_drug_of_the_literal_list_is_in_a_set():
    """A policy that chooses sets instead of the list removes the same drugs."""
    rows = [row for row in read_table("sensitive_codes.csv") if row["kind"] == "drug"]
    in_sets = {row["first"] for row in rows if row["code_list"] != "literal"}
    assert {row["first"] for row in rows if row["code_list"] == "literal"} < in_sets
    assert drug_sets() == {"literal", "hiv", "substance_use", "reproductive", "mental_health"}


def test_names_of_ingredients_are_plain_words_in_lower_case():
    for row in read_table("sensitive_codes.csv"):
        if row["kind"] == "drug":
            assert row["first"] == row["last"] and re.fullmatch("[a-z]+( [a-z]+)?", row["first"])


def test_an_unknown_set_is_refused():
    with pytest.raises(ValueError, match="substance_use, hiv, reproductive, mental_health, abuse, genetics, not cancer"):
        sensitive_codes([], "diagnosis", sets=("cancer",))
