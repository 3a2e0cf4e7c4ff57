import pickle
from pathlib import Path

import pydantic
import pytest

from deid_assets.errors import DeliveryError
from deid_assets.sources.delivery import ClaimsMap, Delivery, MembersMap, TablesSource

MEMBERS = {"member_id": "id", "sex": "sex", "age": "age"}


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "2012"
    (folder / "part").mkdir(parents=True)
    (folder / "members.csv").write_text("a,b\n1,2\n")
    (folder / "part" / "claims.csv").write_text("c,d\n3,4\n")
    return folder


def test_a_delivery_survives_json_and_pickle(folder):
    delivery = Delivery("2012-04", "tables", (folder,), {"seed": 7})
    assert Delivery.from_json(delivery.to_json()) == delivery
    assert pickle.loads(pickle.dumps(delivery)) == delivery
    assert len({delivery, Delivery("2012-04", "tables", (folder,), {"seed": 7})}) == 1


def test_a_delivery_cannot_be_changed(folder):
    delivery = Delivery("2012-04", "tables", (folder,), {"seed": 7})
    with pytest.raises(TypeError):
        delivery.parameters["seed"] = 8


@pytest.mark.parametrize("key", ["", ".hidden", "-x", "a/b", "a b", "a\n", "ü"])
def test_a_key_that_is_no_file_name_is_refused(key):
    with pytest.raises(DeliveryError, match="key"):
        Delivery(key, "tables", ())


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"key": "a", "kind": "tables", "paths": 3}'])
def test_a_broken_record_is_refused(text):
    with pytest.raises(DeliveryError, match="not the record of a delivery"):
        Delivery.from_json(text)


def test_an_unknown_kind_is_refused():
    with pytest.raises(DeliveryError, match="synthetic, desynpuf, tables"):
        Delivery("a", "excel", ())


def test_the_digest_depends_on_names_and_contents_only(folder, tmp_path):
    digest = Delivery("a", "tables", (folder,)).digest()
    elsewhere = tmp_path / "elsewhere" / "2012"
    elsewhere.parent.mkdir()
    folder.rename(elsewhere)
    assert Delivery("b", "tables", (elsewhere,)).digest() == digest
    (elsewhere / "members.csv").write_text("a,b\n1,3\n")
    changed = Delivery("a", "tables", (elsewhere,)).digest()
    assert changed != digest
    (elsewhere / "members.csv").rename(elsewhere / "people.csv")
    assert Delivery("a", "tables", (elsewhere,)).digest() not in (digest, changed)


def test_the_digest_does_not_depend_on_the_order_of_paths(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "members.csv").write_text(name)
    paths = (tmp_path / "one", tmp_path / "two")
    assert Delivery("a", "tables", paths).digest() == Delivery("a", "tables", paths[::-1]).digest()


def test_a_missing_path_has_no_digest(tmp_path):
    with pytest.raises(DeliveryError, match="nowhere: missing file or folder"):
        Delivery("a", "tables", (tmp_path / "nowhere",)).digest()


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"member_id": "id", "sex": "sex"}, "one of age, birth_date"),
        ({"sex": "sex", "age": "age"}, "member_id"),
        ({**MEMBERS, "agee": "age"}, "no canonical column agee; allowed: member_id"),
        ({**MEMBERS, "age": ""}, "at least 1 character"),
    ],
)
def test_a_members_map_says_what_it_lacks(columns, message):
    with pytest.raises(pydantic.ValidationError, match=message):
        MembersMap(file="members.csv", columns=columns)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"claim_id": "id", "year": "y"}, "member_id"),
        ({"member_id": "id"}, "one of service_date, year"),
        ({"member_id": "id", "year": "y", "admission_date": "a"}, "both or neither"),
        ({"member_id": "id", "year": "y", "paid_date": "p"}, "paid_date needs service_date"),
    ],
)
def test_a_claims_map_says_what_it_lacks(columns, message):
    with pytest.raises(pydantic.ValidationError, match=message):
        ClaimsMap(file="claims.csv", columns=columns)


@pytest.mark.parametrize("file", ["/etc/passwd", "../members.csv", "a/../../b.csv", ""])
def test_a_file_outside_the_delivery_is_refused(file):
    with pytest.raises(pydantic.ValidationError, match="below the delivery's folder"):
        MembersMap(file=file, columns=MEMBERS)


@pytest.mark.parametrize("date_format", ["", "yyyy-mm-dd", "%Q", "%Y%", "%m/%d"])
def test_a_date_format_that_is_none_is_refused(date_format):
    with pytest.raises(pydantic.ValidationError, match="strptime format"):
        TablesSource(members=MembersMap(file="m.csv", columns=MEMBERS), date_format=date_format)


@pytest.mark.parametrize("date_format", ["%Y-%m-%d", "%m/%d/%Y", "%d.%m.%y", "%d-%b-%Y", "%-m/%-d/%Y", "%Y-%m-%d %H:%M:%S"])
def test_usual_date_formats_are_taken(date_format):
    source = TablesSource(members=MembersMap(file="m.csv", columns=MEMBERS), date_format=date_format)
    assert source.date_format == date_format


def test_without_a_year_the_years_must_be_named():
    claims = ClaimsMap(file="c.csv", columns={"member_id": "id", "service_date": "d"})
    with pytest.raises(pydantic.ValidationError, match="years is needed"):
        TablesSource(members=MembersMap(file="m.csv", columns=MEMBERS), claims=claims)


def test_an_age_from_birth_dates_needs_the_years():
    members = MembersMap(file="m.csv", columns={"member_id": "id", "sex": "sex", "birth_date": "b"})
    with pytest.raises(pydantic.ValidationError, match="years is needed"):
        TablesSource(members=members)


def test_a_misspelt_option_is_refused():
    with pytest.raises(pydantic.ValidationError, match="delimeter"):
        TablesSource(members=MembersMap(file="m.csv", columns=MEMBERS), delimeter=";")


def test_paths_are_kept_as_given():
    assert Delivery("a", "tables", ("in/2012",)).paths == (Path("in/2012"),)
