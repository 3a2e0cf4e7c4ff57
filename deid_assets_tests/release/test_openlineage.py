"""A release as an OpenLineage event: as the specification wants it, with nothing that is not public; and an endpoint."""

import json
import re
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from deid_assets.errors import ReleaseError
from deid_assets.home_identity import identity, public_name
from deid_assets.release.lineage.columns import DerivedColumn
from deid_assets.release.lineage.openlineage import release_event, send
from deid_assets.store.home import Home
from deid_assets_tests.lineage_endpoint import Endpoint, listening
from deid_assets_tests.processes import WAIT

RUN = "fbfd08e5-7991-4872-8a6d-53fb5b6ccfbc"
MANIFEST = {
    "code_version": "0.1.0",
    "created": "2026-01-01T00:00:00+00:00",
    "number": 7,
    "policy": {
        "name": "small",
        "text": json.dumps(
            {
                "title": "Small claims",
                "description": "Claims of a\nsmall insurer.",
                "owners": ["team:privacy", "me@example.org"],
                "recipients": {"recipient_class": "researchers", "terms_of_use": "no linkage."},
            }
        ),
    },
    "delivery": {"key_digest": "22e41dab0b9d7a6b"},
    "files": [
        {"path": "data/Claims.csv", "rows_digest": "ab" * 32, "rows": 582, "bytes": 9_000},
        {"path": "data/Claims.parquet", "rows_digest": "ab" * 32, "rows": 582, "bytes": 1_000},
        {"path": "certificate.json", "rows_digest": None, "rows": None, "bytes": 70},
    ],
}
DICTIONARY = {
    "tables": {
        "Claims": {"columns": [{"name": "PlaceSvc", "type": "text", "meaning": "place of service"}]},
        "Attrition": {"columns": [{"name": "Count", "type": "whole number", "meaning": "protected count"}]},
    }
}
COLUMNS = (
    DerivedColumn("Claims", "PlaceSvc", "release_claims", ("release_claims.PlaceSvc", "claims.place"), ("claims.POS.code",)),
    DerivedColumn("Attrition", "Count", "published_counts", (), ()),
)


def event() -> dict:
    return release_event(MANIFEST, DICTIONARY, COLUMNS, RUN, "5e1f")


def test_tables_go_in_and_come_out_with_their_columns():
    made = event()
    assert (made["job"]["namespace"], made["job"]["name"]) == ("deid://5e1f", "small/release")
    assert [one["name"] for one in made["inputs"]] == ["22e41dab0b9d7a6b/claims"]
    attrition, claims = made["outputs"]
    assert (claims["namespace"], claims["name"]) == ("deid://5e1f/releases", "small/0007/Claims")
    assert claims["facets"]["version"]["datasetVersion"] == "ab" * 32
    (source,) = claims["facets"]["columnLineage"]["fields"]["PlaceSvc"]["inputFields"]
    assert source == {
        "namespace": "deid://5e1f/deliveries", "name": "22e41dab0b9d7a6b/claims", "field": "POS.code", "transformations": [],
    }  # fmt: skip
    assert attrition["facets"]["columnLineage"]["fields"] == {}
    assert attrition["facets"]["version"]["datasetVersion"] == "unknown"


def test_it_says_what_ran_for_whom_whose_it_is_and_how_many_rows_came_out():
    made = event()
    engine, job = made["run"]["facets"]["processing_engine"], made["job"]["facets"]
    assert (engine["name"], engine["version"]) == ("deid_assets", "0.1.0")
    assert re.fullmatch(r"urn:[a-z\d][a-z\d-]{0,30}[a-z\d]:[\w.+]+", made["producer"]), "the form of a URN, RFC 8141"
    about = "Small claims. Claims of a small insurer. For researchers. Terms of use: no linkage."
    owners = [{"name": name, "type": "OWNER"} for name in ("team:privacy", "me@example.org")]
    assert job["documentation"]["description"] == about and job["ownership"]["owners"] == owners
    assert (job["jobType"]["processingType"], job["jobType"]["integration"]) == ("BATCH", "DAGSTER")
    attrition, claims = made["outputs"]
    assert claims["facets"]["documentation"]["description"] == f"Table Claims of release small/0007. {about}"
    assert claims["facets"]["ownership"]["owners"] == owners
    counted = claims["outputFacets"]["outputStatistics"]
    assert (counted["rowCount"], counted["size"], counted["fileCount"]) == (582, 10_000, 2)
    assert attrition["outputFacets"] == {}, "the manifest states no rows of it"


def test_the_name_of_a_home_stays_and_tells_neither_its_place_nor_its_identity(tmp_path):
    home, other = (Home(tmp_path / name).create() for name in ("deid", "other"))
    name = public_name(home)
    assert name == public_name(home) != public_name(other) and len(name) == 16
    assert name not in identity(home) and identity(home) not in name
    home.root.rename(tmp_path / "moved")
    assert public_name(Home(tmp_path / "moved")) == name


def test_the_one_table_of_a_flat_delivery_is_called_records():
    column = DerivedColumn("Records", "Age", "release_records", ("release_records.Age",), ("age.in.years",))
    made = release_event(MANIFEST, {"tables": {"Records": {"columns": []}}}, [column], RUN, "5e1f")
    (source,) = made["outputs"][0]["facets"]["columnLineage"]["fields"]["Age"]["inputFields"]
    assert (source["name"], source["field"]) == ("22e41dab0b9d7a6b/records", "age.in.years")


def test_it_is_what_the_classes_generated_from_the_specification_write():
    base = pytest.importorskip("openlineage.client.generated.base")
    from openlineage.client.generated import (
        column_lineage_dataset,
        dataset_version_dataset,
        documentation_dataset,
        documentation_job,
        job_type_job,
        output_statistics_output_dataset,
        ownership_dataset,
        ownership_job,
        processing_engine_run,
        schema_dataset,
    )
    from openlineage.client.serde import Serde

    def own(facet):
        return {name: value for name, value in facet.items() if not name.startswith("_")}

    made = event()
    outputs = []
    for one in made["outputs"]:
        facets = one["facets"]
        common = {"producer": facets["schema"]["_producer"]}
        fields = [schema_dataset.SchemaDatasetFacetFields(**field) for field in facets["schema"]["fields"]]
        lineage = {
            name: column_lineage_dataset.Fields(
                inputFields=[column_lineage_dataset.InputField(**source) for source in field["inputFields"]]
            )
            for name, field in facets["columnLineage"]["fields"].items()
        }
        built = {
            "schema": schema_dataset.SchemaDatasetFacet(fields=fields, **common),
            "version": dataset_version_dataset.DatasetVersionDatasetFacet(
                datasetVersion=facets["version"]["datasetVersion"], **common
            ),
            "columnLineage": column_lineage_dataset.ColumnLineageDatasetFacet(fields=lineage, **common),
            "documentation": documentation_dataset.DocumentationDatasetFacet(**own(facets["documentation"]), **common),
            "ownership": ownership_dataset.OwnershipDatasetFacet(
                owners=[ownership_dataset.Owner(**owner) for owner in facets["ownership"]["owners"]], **common
            ),
        }
        counted = {
            name: output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(**own(facet), **common)
            for name, facet in one["outputFacets"].items()
        }
        outputs.append(base.OutputDataset(namespace=one["namespace"], name=one["name"], facets=built, outputFacets=counted))
    job = made["job"]["facets"]
    job_facets = {
        "jobType": job_type_job.JobTypeJobFacet(**own(job["jobType"]), **common),
        "documentation": documentation_job.DocumentationJobFacet(**own(job["documentation"]), **common),
        "ownership": ownership_job.OwnershipJobFacet(
            owners=[ownership_job.Owner(**owner) for owner in job["ownership"]["owners"]], **common
        ),
    }
    engine = processing_engine_run.ProcessingEngineRunFacet(**own(made["run"]["facets"]["processing_engine"]), **common)
    whole = base.RunEvent(
        eventType=base.EventType.COMPLETE,
        eventTime=made["eventTime"],
        run=base.Run(runId=RUN, facets={"processing_engine": engine}),
        job=base.Job(namespace=made["job"]["namespace"], name=made["job"]["name"], facets=job_facets),
        inputs=[base.InputDataset(namespace=one["namespace"], name=one["name"]) for one in made["inputs"]],
        outputs=outputs,
        producer=made["producer"],
    )
    assert Serde.to_dict(whole) == made


@pytest.fixture
def endpoint() -> Iterator[tuple[str, type[Endpoint]]]:
    with listening() as (url, handler):
        yield url, handler


def test_an_event_is_sent_as_clients_of_openlineage_send_it(endpoint):
    url, handler = endpoint
    send(event(), url, "a key")
    send(event(), url, None)
    assert handler.got == [("/api/v1/lineage", "Bearer a key", event()), ("/api/v1/lineage", None, event())]


def test_an_endpoint_that_refuses_is_told_without_address_and_key(endpoint):
    url, handler = endpoint
    handler.answer = 500
    with pytest.raises(ReleaseError, match="it answers 500") as told:
        send(event(), url, "a key")
    assert "127.0.0.1" not in str(told.value) and "a key" not in str(told.value)


@pytest.mark.parametrize("answer", [301, 302, 303, 307])
def test_a_redirect_is_not_followed_with_the_key_and_not_taken_for_success(endpoint, answer):
    url, handler = endpoint
    asked = []

    class Elsewhere(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.headers.get("Authorization"))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *line):
            pass

    with HTTPServer(("127.0.0.1", 0), Elsewhere) as elsewhere:
        threading.Thread(target=elsewhere.serve_forever, daemon=True).start()
        handler.answer, handler.location = answer, f"http://127.0.0.1:{elsewhere.server_port}/"
        with pytest.raises(ReleaseError, match=f"it answers {answer}"):
            send(event(), url, "a key")
        elsewhere.shutdown()
    assert asked == []


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("http://127.0.0.1:1", "it cannot be reached"),
        ("http://[broken", "it cannot be reached"),
        ("file:///etc/passwd", "must begin with http"),
    ],
)
def test_an_endpoint_that_is_not_there(url, problem):
    with pytest.raises(ReleaseError, match=problem):
        send(event(), url, None)


def test_an_endpoint_that_does_not_speak_http():
    def answer() -> None:
        connection, _ = server.accept()
        with connection:
            connection.recv(1_000_000)
            connection.sendall(b"220 mail\r\n")

    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(WAIT)
        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(ReleaseError, match="it cannot be reached \\(BadStatusLine\\)"):
            send(event(), f"http://127.0.0.1:{server.getsockname()[1]}", None)
        thread.join()
