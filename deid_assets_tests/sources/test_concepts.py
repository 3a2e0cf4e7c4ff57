"""Concepts of OMOP vocabularies, and diagnoses of other tables of events: groups, what lists read, and what is unknown."""

from contextlib import nullcontext
from pathlib import Path

import duckdb
import pytest

from deid_assets.errors import DeliveryError
from deid_assets.policy.sections.columns import Concept, Diagnosis
from deid_assets.reference.sensitive import sensitive_codes
from deid_assets.sources.concepts import VOCABULARY, Meaning, concept_book
from deid_assets.sources.delivery import EventsMap, ReferenceTable, VocabularyMap
from deid_assets.sources.derivations import UNGROUPED, Declared, Derivation
from deid_assets_tests.sources.deliveries import SOURCE, take_in, write_parquet
from deid_assets_tests.sources.test_declared_columns import taken, values

# HIV of SNOMED CT with two codes of ICD-10-CM; AIDS with wasting below it, and one three levels below; a diabetes that was
# replaced by another concept; a drug of RxNorm and of a brand; an office visit of CPT; a finding that nothing maps to; and
# one of WHO's ICD-10, whose Z72.2 is in no table of ICD-10-CM, where Z72 tells nothing sensitive.
CONCEPTS = """concept_id,concept_name,vocabulary_id,concept_class_id,concept_code
1,HIV infection,SNOMED,Disorder,86406008
2,AIDS with wasting,SNOMED,Disorder,111880001
3,Far below,SNOMED,Disorder,9
4,Still further below,SNOMED,Disorder,10
5,Old diabetes,SNOMED,Disorder,11
6,Diabetes,SNOMED,Disorder,73211009
7,Some finding,SNOMED,Finding,404684003
8,Drug use,SNOMED,Finding,13
11,HIV disease,ICD10CM,5-char,B20
12,Asymptomatic HIV,ICD10CM,3-char,Z21
13,Type 2 diabetes,ICD10CM,4-char,E11.9
14,No such code,ICD10CM,4-char,Q9Z.9
15,Drug use,ICD10,ICD10 code,Z72.2
21,abacavir 300 MG Oral Tablet [Ziagen],RxNorm,Branded Drug,1
22,abacavir,RxNorm,Ingredient,2
23,ANTIINFECTIVES FOR SYSTEMIC USE,ATC,ATC 1st,J
24,00000000001,NDC,11-digit NDC,00000000001
31,Office visit,CPT4,CPT4,99213
32,Visit,SNOMED,Procedure,12
"""
RELATIONSHIPS = """concept_id_1,concept_id_2,relationship_id,invalid_reason
11,1,Maps to,
1,12,Mapped from,
2,1,Is a,
1,2,Subsumes,
3,2,Is a,
4,3,Is a,
5,6,Maps to,
13,6,Maps to,
14,7,Maps to,
13,7,Maps to,D
15,8,Maps to,
24,21,Maps to,
31,32,Maps to,
"""
ANCESTORS = """ancestor_concept_id,descendant_concept_id,min_levels_of_separation
1,1,0
1,2,1
1,3,2
1,4,3
22,21,2
23,21,5
"""


def column(of: str, own: dict[str, Meaning] | None = None, named: str | None = None) -> Derivation:
    """The declared column of the claims' concepts."""
    declared = Concept.model_validate({"kind": "concept", "of": of, "from": "CONCEPT", "named": named, "meaning": "group"})
    declared.__dict__["meanings"] = own or {}
    return declared.made("claims")


def read(folder: Path, made: Derivation, codes, ancestors: bool = True, vocabulary: bool = True, **further):
    """Each claim's group, what lists read, and the number of unknown codes, with what the intake says."""
    rows = [{"CONCEPT": code, **{key: one[number] for key, one in further.items()}} for number, code in enumerate(codes)]
    taken(folder, [{}], rows)
    tables = {"concept": CONCEPTS, "concept_relationship": RELATIONSHIPS} | (
        {"concept_ancestor": ANCESTORS} if ancestors else {}
    )
    for name, text in tables.items():
        (folder / "in" / f"{name.upper()}.csv").write_text(text)
    described = VocabularyMap(**{name: ReferenceTable(file=f"{name.upper()}.csv") for name in tables})
    source = SOURCE.model_copy(update={"unknown_codes": "blank"} | ({"vocabulary": described} if vocabulary else {}))
    found = take_in(folder / "in", source, store=folder / "read.duckdb", declared=Declared({}, {"claims": {"c_code": made}}))
    listed = values(found, "claims", "declared_codes")
    return values(found, "claims", "c_code"), listed, values(found, "claims", "unreadable_declared"), found.report.warnings


@pytest.mark.parametrize("ancestors", [True, False])
def test_a_concept_is_read_as_the_codes_that_map_to_it_and_to_what_is_above(tmp_path, ancestors):
    """All codes that a concept may stand for are searched. One to which none maps itself is unknown, with a group or none."""
    codes = ["1", "2.0", "3", "4", "5", "7", "8", "0", ""]
    groups, listed, unknown, said = read(tmp_path, column("diagnosis"), codes, ancestors)
    hiv = "diagnosis:icd10cm:B20;diagnosis:icd10cm:Z21"
    assert listed == [hiv, hiv, hiv, None, "diagnosis:icd10cm:E119", None, None, None, None]
    assert groups == ["INFEC4", "INFEC4", "INFEC4", None, "METAB3", None, None, None, None]
    assert unknown == [0, 1, 1, 1, 0, 1, 1, 1, 0]
    (told,) = [one for one in said if "are unknown" in one]
    assert told.startswith("claims: 6 of 8 codes in CONCEPT are unknown (75.00%; 6 different ones)")


def test_a_drug_is_read_by_its_names_and_those_of_its_ingredients(tmp_path):
    groups, listed, unknown, _ = read(tmp_path, column("drug"), ["21", "24", "6"])
    names = "drug:abacavir / abacavir 300 mg oral tablet [ziagen]"
    assert listed == [names, names, None] and unknown == [0, 0, 1]
    assert groups == ["antiinfectives for systemic use"] * 2 + [None]
    assert len(sensitive_codes([names.removeprefix("drug:")], "drug")) == 1


def test_a_drug_without_a_group_is_not_grouped(tmp_path):
    groups, listed, unknown, _ = read(tmp_path, column("drug"), ["21"], ancestors=False)
    assert groups == [UNGROUPED] and unknown == [0] and "abacavir" in listed[0]


def test_procedures_are_read_as_cpt(tmp_path):
    groups, listed, unknown, _ = read(tmp_path, column("procedure"), ["31", "32", "1"])
    assert groups == ["evaluation and management"] * 2 + [None]
    assert listed[:2] == ["procedure:99213"] * 2 and unknown == [0, 0, 1]
    assert listed[2] == "diagnosis:icd10cm:B20;diagnosis:icd10cm:Z21", "unknown as a procedure, and sensitive all the same"


# By concept: what it is, what lists read of it, in the order of the distance, and whether that is what it stands for itself.
@pytest.mark.parametrize(
    ("of", "codes", "maps", "parents", "listed", "known"),
    [
        # A harmless parent, and HIV above another one.
        ("diagnosis", {12: ("ICD10CM", "G04.90"), 13: ("ICD10CM", "B20")}, {12: 2, 13: 3}, ((1, 2), (1, 99), (99, 3)),
         "diagnosis:icd10cm:G0490;diagnosis:icd10cm:B20", None),
        # An abortion by a code of CPT, with a harmless parent.
        ("diagnosis", {12: ("CPT4", "59840"), 13: ("ICD10CM", "R10.9")}, {12: 1, 13: 2}, ((1, 2),),
         "procedure:59840;diagnosis:icd10cm:R109", None),
        # A code that nothing here reads, with a harmless parent.
        ("diagnosis", {12: ("ICD10", "B24"), 13: ("ICD10CM", "B34.9")}, {12: 1, 13: 2}, ((1, 2),),
         "diagnosis:icd10cm:B349", None),
        ("procedure", {12: ("ICD10CM", "Z21"), 13: ("CPT4", "87536"), 14: ("CPT4", "99213")}, {12: 1, 13: 2, 14: 1}, ((1, 2),),
         "procedure:99213;diagnosis:icd10cm:Z21;procedure:87536", "yes"),
    ],
)  # fmt: skip
def test_lists_read_every_code_that_may_be_meant(of, codes, maps, parents, listed, known):
    with duckdb.connect() as connection:
        concepts = [(number, "", "SNOMED", "", str(number)) for number in (1, 2, 3, 99)]
        concepts += [(number, "", system, "", code) for number, (system, code) in codes.items()]
        related = [(one, other, "Maps to", None) for one, other in maps.items()] + [(*pair, "Is a", None) for pair in parents]
        for name, rows in (("concept", concepts), ("concept_relationship", related)):
            table = VOCABULARY[name]
            connection.execute(f"CREATE TABLE given_{name} ({' VARCHAR, '.join(table.columns)} VARCHAR)")
            connection.executemany(f"INSERT INTO given_{name} VALUES ({', '.join('?' * len(table.columns))})", rows)
            connection.execute(f"CREATE VIEW {table.view} AS FROM given_{name}")
        (row,) = concept_book(connection, ["1"], of, {}).to_dict("records")
    assert row["listed"] == listed and (row["known"] if isinstance(row["known"], str) else None) == known
    assert row["code_group"] is not None


def test_a_table_of_the_team_goes_before_the_vocabulary_and_needs_none(tmp_path):
    own = {"1": Meaning("infections", ("icd10cm:B20",)), "65363002": Meaning("ears", ())}
    made = column("diagnosis", own)
    for number, vocabulary in enumerate((True, False)):
        groups, listed, unknown, _ = read(tmp_path / str(number), made, ["1", "65363002.0", "5"], vocabulary=vocabulary)
        assert groups[:2] == ["infections", "ears"] and listed[:2] == ["diagnosis:icd10cm:B20", None]
        assert unknown == [0, 0, 0 if vocabulary else 1]


def test_every_ingredient_of_a_table_is_read_whatever_is_between_them(tmp_path):
    own = {"7": Meaning("opioids", ("naloxone;  buprenorphine",))}
    _, listed, unknown, _ = read(tmp_path, column("drug", own), ["7"], vocabulary=False)
    assert listed == ["drug:naloxone buprenorphine"] and unknown == [0]
    assert len(sensitive_codes([listed[0].removeprefix("drug:")], "drug")) == 1


def test_names_of_drugs_beside_their_codes_are_read_with_what_the_table_says(tmp_path):
    own = {"7": Meaning("opioids", ("buprenorphine / naloxone",))}
    names = ["BUP-NX film", "", "Naloxone; 4 MG", "unknown drug", "", "12"]
    groups, listed, unknown, _ = read(
        tmp_path, column("drug", own, named="NAME"), ["7", "7", "8", "8", "8", "9"], vocabulary=False, NAME=names
    )
    said = "drug:buprenorphine / naloxone"
    assert listed == [f"{said};drug:bup-nx film", said, "drug:naloxone 4 mg", "drug:unknown drug", None, "drug:12"]
    assert unknown == [0, 0, 0, 1, 1, 1], "a name makes a drug known if it names an ingredient"
    assert groups == ["opioids", "opioids", UNGROUPED, None, None, None]


def test_a_name_beside_an_unknown_code_may_be_of_an_ingredient_of_the_vocabulary(tmp_path):
    names = ["Abacavir 20 MG/ML", "Abacavirum", "Tabl. 300 mg"]
    _, listed, unknown, _ = read(tmp_path, column("drug", named="NAME"), ["8", "8", "21"], NAME=names)
    assert unknown == [0, 1, 0]
    assert listed[2] == "drug:abacavir / abacavir 300 mg oral tablet [ziagen];drug:tabl. 300 mg"


@pytest.mark.parametrize(
    ("system", "codes", "groups"),
    [
        ("icd10cm", ["E11.9", "b20", "250.00", "99213"], ["METAB3", "INFEC4", None, None]),
        ("icd9cm", ["250.00", "042", "42.0", "E11.9"], ["METAB3", "INFEC4", None, None]),
    ],
)
def test_diagnoses_of_other_tables_have_the_groups_of_those_of_claims(tmp_path, system, codes, groups):
    declared = Diagnosis(kind="diagnosis", **{"from": "CONCEPT"}, system=system, meaning="group")
    found, listed, unknown, _ = read(tmp_path, declared.made("claims"), codes, vocabulary=False)
    assert found == groups and unknown == [0, 0, 1, 1]
    assert len(sensitive_codes([listed[1].removeprefix("diagnosis:")], "diagnosis")) == 1 and listed[2:] == [None, None]


def test_two_tables_of_events_may_have_columns_of_codes_of_one_name(tmp_path):
    """Each has a book of its own codes: the second has one that the first lacks."""
    taken(tmp_path, [{}], [{}])
    mapped = EventsMap(file="seen.csv", columns={"member_id": "member_id", "service_date": "day"})
    for name, codes in (("seen", ("B20",)), ("told", ("E119", "no code"))):
        rows = "".join(f"m1,2008-03-0{day},{code}\n" for day, code in enumerate(codes, start=1))
        (tmp_path / "in" / f"{name}.csv").write_text(f"member_id,day,DX\n{rows}")
    events = {name: mapped.model_copy(update={"file": f"{name}.csv"}) for name in ("seen", "told")}
    dx = Diagnosis(kind="diagnosis", **{"from": "DX"}, system="icd10cm", meaning="group")
    concept = Concept(kind="concept", of="diagnosis", **{"from": "DX"}, meaning="group")
    made = {name: {f"dx_{name}": dx.made(name), f"concept_{name}": concept.made(name)} for name in events}
    source = SOURCE.model_copy(update={"events": events, "unknown_codes": "blank"})
    found = take_in(tmp_path / "in", source, declared=Declared({}, {"claims": {}, **made}))
    frame = found.frame("claims", "claim_id")
    assert frame["dx_seen"].dropna().tolist() == ["INFEC4"] and frame["dx_told"].dropna().tolist() == ["METAB3"]


@pytest.mark.parametrize("kind", ["INTEGER", "DOUBLE", "DECIMAL(6,2)"])
@pytest.mark.parametrize("values_of", ["7953", "NULL"])
def test_diagnoses_of_other_tables_that_are_numbers_are_refused(tmp_path, kind, values_of):
    """079.53 and 795.3 would both be 7953, and only one of them is HIV. Concepts are numbers, and stay so."""
    taken(tmp_path, [{}], [{}])
    row = f"SELECT 'm1' AS member_id, DATE '2008-03-01' AS day, {values_of}::{kind} AS DX"
    write_parquet(tmp_path / "in" / "seen.parquet", row)
    mapped = EventsMap(file="seen.parquet", columns={"member_id": "member_id", "service_date": "day"})
    source = SOURCE.model_copy(update={"events": {"seen": mapped}, "unknown_codes": "blank"})
    dx = Diagnosis(kind="diagnosis", **{"from": "DX"}, system="icd9cm", meaning="group").made("seen")
    concept = Concept(kind="concept", of="diagnosis", **{"from": "DX"}, meaning="group").made("seen")
    take_in(tmp_path / "in", source, declared=Declared({}, {"claims": {}, "seen": {"concept": concept}}))
    refused = pytest.raises(DeliveryError, match="seen: column DX contains numbers, which have lost the leading zeros")
    with nullcontext() if values_of == "NULL" else refused:
        take_in(tmp_path / "in", source, declared=Declared({}, {"claims": {}, "seen": {"dx": dx}}))


def test_files_that_macos_writes_beside_others_are_passed_over_and_said(tmp_path):
    taken(tmp_path, [{}], [{}])
    (tmp_path / "in" / "._claims.csv").write_bytes(b"\x00\x05\x16\x07")
    pattern = SOURCE.claims.model_copy(update={"file": "*claims.csv"})
    found = take_in(tmp_path / "in", SOURCE.model_copy(update={"claims": pattern}), store=tmp_path / "read.duckdb")
    assert found.report.rows_kept["claims"] == 1
    assert any("1 file was passed over with a name that begins with ._" in one for one in found.report.warnings)
