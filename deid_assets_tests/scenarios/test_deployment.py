"""The deployment that ships, without containers: the commands of its compose file as processes, on a PostgreSQL server.

A delivery arrives in a watched folder. The daemon's sensor registers it and requests a run, which waits in the daemon's queue
and is executed by the code location, the only process with the restricted store and the secret. Webserver and daemon have
neither: their user cannot enter the home.
"""

import contextlib
import http.client
import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

import deid_assets
from deid_assets.release.keys import Secret, SigningKey
from deid_assets.sources.synthetic.delivery import write_delivery
from deid_assets.store.digests import parse_json
from deid_assets_tests.postgres import needs_postgres
from deid_assets_tests.processes import WAIT, free_port, wait_for
from deid_assets_tests.scenarios.command_line import PUBLISHED, deid_here
from deid_assets_tests.scenarios.conftest import MEMBERS, SECRET
from deid_assets_tests.scenarios.policies import SMALL, write_policy
from deid_assets_tests.scenarios.test_flat_release import FLAT, people, write_people

pytestmark = pytest.mark.matrix

FILES = Path(deid_assets.__file__).parent / "docs" / "deployment"
COMPOSE = yaml.safe_load((FILES / "compose.yaml").read_text())
RUN_SECONDS = 900

# Root without any capability is an ordinary user: it cannot enter a folder of somebody else.
WITHOUT_PRIVILEGES = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")
needs_two_users = pytest.mark.skipif(
    os.getuid() != 0 or shutil.which("setpriv") is None, reason="only root, with setpriv, can act as two users"
)


@dataclass(frozen=True)
class Deployment:
    """Where everything of one deployment is, and where its servers listen."""

    root: Path
    storage: str
    code_port: int
    web_port: int

    @property
    def home(self) -> Path:
        return self.root / "restricted" / "deid"

    @property
    def published(self) -> Path:
        return self.root / "published"

    @property
    def dagster(self) -> Path:
        """The home of webserver and daemon: the two files that the image has."""
        return self.root / "dagster"

    @property
    def restricted_settings(self) -> dict[str, str]:
        return {
            "DEID_HOME": str(self.home),
            "DEID_PUBLISHED": str(self.published),
            "DEID_SECRET_FILE": str(self.root / "restricted" / "secret"),
        }

    def command(self, service: str, check: bool = False) -> list[str]:
        """The command of a service, or its health check, with the addresses and folders that it has here."""
        stated = COMPOSE["services"][service]
        words = stated["healthcheck"]["test"][1:] if check else stated["command"]
        here = {
            "0.0.0.0": "127.0.0.1", "4000": str(self.code_port), "3000": str(self.web_port),
            "/opt/dagster/workspace.yaml": str(self.dagster / "workspace.yaml"),
        }  # fmt: skip
        program, *options = [here.get(word, word) for word in words]
        return [str(Path(sys.executable).with_name(program)), *options]

    def environment(self, restricted: bool) -> dict[str, str]:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("DEID_")}
        package = str(Path(deid_assets.__file__).parents[1])
        common = {"DAGSTER_HOME": str(self.dagster), "DEID_STORAGE": self.storage, "PYTHONPATH": package}
        return clean | common | {"PYTHONWARNINGS": "ignore"} | (self.restricted_settings if restricted else {})

    @contextlib.contextmanager
    def service(self, name: str, restricted: bool = False) -> Iterator[subprocess.Popen]:
        """Start a service; it and its own processes end with the block."""
        command = self.command(name) if restricted else [*WITHOUT_PRIVILEGES, *self.command(name)]
        folder = self.root / "logs"
        with (folder / f"{name}.txt").open("wb") as printed:
            process = subprocess.Popen(
                command, env=self.environment(restricted), cwd="/", stdout=printed, stderr=subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip
        try:
            yield process
        finally:
            for number in (signal.SIGTERM, signal.SIGKILL):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, number)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(20)
                    break

    def ask(self, query: str, **variables) -> dict | None:
        """Send a GraphQL query; None while nobody answers."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.web_port}/graphql",
            data=json.dumps({"query": query, "variables": variables}).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=WAIT) as answer:
                found = json.loads(answer.read())
        except (OSError, http.client.HTTPException):
            return None
        assert "errors" not in found, found["errors"]
        return found["data"]

    def log(self, name: str) -> str:
        return (self.root / "logs" / f"{name}.txt").read_text()


@pytest.fixture
def deployment(postgres) -> Iterator[Deployment]:
    """A deployment with an adopted policy and a delivery in its watched folder; nothing runs yet."""
    root = Path(tempfile.mkdtemp(prefix="deid-deployment-"))
    try:
        root.chmod(0o755)
        for name in ("restricted", "in", "logs", "dagster"):
            (root / name).mkdir()
        made = Deployment(root, postgres, free_port(), free_port())
        shutil.copy(FILES / "dagster.yaml", made.dagster)
        workspace = yaml.safe_load((FILES / "workspace.yaml").read_text())
        workspace["load_from"][0]["grpc_server"] |= {"host": "127.0.0.1", "port": made.code_port}
        (made.dagster / "workspace.yaml").write_text(yaml.safe_dump(workspace))
        (root / "restricted" / "secret").write_text(SECRET)
        (root / "restricted" / "secret").chmod(0o400)
        write_policy(root / "elsewhere", SMALL)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("DEID_STORAGE", made.storage)
            patch.setenv("DEID_PUBLISHED", str(made.published))
            policy, watched = root / "elsewhere" / "small.yaml", root / "in"
            exit_code, printed = deid_here(made.home, "policy", "adopt", policy, "--deliveries", watched)
            assert exit_code == 0, printed
            # From now on the folder of restricted files belongs to somebody else than webserver and daemon.
            os.chown(root / "restricted", pwd.getpwnam("nobody").pw_uid, -1)
            (root / "restricted").chmod(0o700)
            yield made
    finally:
        shutil.rmtree(root)


NODES = "{ assetNodes { assetKey { path } groupName hasMaterializePermission } }"
RUNS = "{ runsOrError { ... on Runs { results { runId status tags { key value } } } } }"
RELEASE = """query($key: AssetKeyInput!) { assetOrError(assetKey: $key) { ... on Asset { assetMaterializations(limit: 1) {
    partition metadataEntries { label ... on TextMetadataEntry { text } ... on PathMetadataEntry { path }
        ... on IntMetadataEntry { intValue } ... on MarkdownMetadataEntry { mdStr } } } } } }"""


@needs_postgres
@needs_two_users
def test_a_delivery_that_arrives_is_released_by_daemon_and_code_location_and_shown_by_a_webserver_without_the_store(deployment):
    here = deployment
    seen = subprocess.run([*WITHOUT_PRIVILEGES, "ls", here.root / "restricted"], capture_output=True, text=True, check=False)
    assert seen.returncode != 0 and "Permission denied" in seen.stderr
    with here.service("code", restricted=True) as code:
        healthy = here.command("code", check=True)

        def answers() -> bool:
            assert code.poll() is None, here.log("code")
            return subprocess.run(healthy, env=here.environment(False), capture_output=True, check=False).returncode == 0

        wait_for("the code location", answers, 300)
        with here.service("webserver") as web:
            nodes = wait_for("the webserver", lambda: (here.ask(NODES) or {}).get("assetNodes"), 300)
            assert ["small", "release"] in [node["assetKey"]["path"] for node in nodes]
            write_delivery(here.root / "in" / "2024-01", MEMBERS, seed=1)
            (here.root / "in" / "2024-01" / "_SUCCESS").touch()
            with here.service("daemon") as daemon:

                def ended() -> dict | None:
                    assert {code.poll(), web.poll(), daemon.poll()} == {None}, here.log("daemon")
                    runs = (here.ask(RUNS) or {}).get("runsOrError", {}).get("results", [])
                    return next((run for run in runs if run["status"] in ("SUCCESS", "FAILURE", "CANCELED")), None)

                run = wait_for("the run", ended, RUN_SECONDS)
            assert run["status"] == "SUCCESS", here.log("code")
            tags = {tag["key"]: tag["value"] for tag in run["tags"]}
            assert (tags["dagster/partition"], tags["dagster/sensor_name"]) == ("2024-01", "deliveries_of_small")
            shown = here.ask(RELEASE, key={"path": ["small", "release"]})["assetOrError"]["assetMaterializations"]
    (made,) = shown
    entries = {entry["label"]: entry for entry in made["metadataEntries"]}
    release = here.published / "small" / "0001"
    assert made["partition"] == "2024-01" and entries["number"]["intValue"] == 1
    assert entries["release"].get("path") == str(release) or entries["release"].get("text") == str(release)

    # What was released under this secret verifies, and the audit finds its run in the database.
    assert (
        parse_json((release / "manifest.json").read_bytes())["secret_commitment"]
        == Secret(SECRET.encode(), "test").commitment()
    )
    key = here.root / "key.pem"
    assert deid_here(here.home, "key", "export", "--output", key)[0] == 0
    assert deid_here(here.home, "verify", release, "--key", key)[0] == PUBLISHED
    exit_code, printed = deid_here(here.home, "audit", "small/0001")
    assert exit_code == 0, printed
    audit = json.loads((here.home / "store" / "manifests" / "small" / "0001.audit.json").read_bytes())
    assert run["runId"] in json.dumps(audit) and not list(here.home.rglob("*.db"))

    # Nothing that webserver and daemon wrote or printed has the secret or the address of the database's password.
    beside = [path for path in [*here.dagster.rglob("*"), *(here.root / "logs").iterdir()] if path.is_file()]
    assert not [path for path in beside if SECRET.encode() in path.read_bytes()]


@needs_postgres
def test_a_delivery_by_url_is_released_elsewhere_copied_audited_and_reproduced_on_postgresql(tmp_path, postgres, monkeypatch):
    """`deid run` with every setting; `deid reproduce` must not touch the database, the releases or the copies."""
    home, published, copies = tmp_path / "deid", tmp_path / "published", tmp_path / "copies"
    pem = SigningKey.generated().private_pem().decode()
    for name, value in {
        "DEID_STORAGE": postgres, "DEID_PUBLISHED": str(published), "DEID_COPY_TO": copies.as_uri(), "DEID_SIGNING_KEY": pem,
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    url = write_people(tmp_path / "in" / "2024-01", people()).as_uri()
    write_policy(tmp_path / "elsewhere", FLAT)
    policy = tmp_path / "elsewhere" / "flat_table.yaml"
    exit_code, printed = deid_here(home, "run", "--policy", policy, "--delivery", url)
    assert exit_code == PUBLISHED, printed
    release = published / "flat_table" / "0001"
    assert (home / "deliveries" / "fetched" / "2024-01").is_dir() and not (home / "keys" / "signing_key.pem").exists()

    def files(folder: Path) -> dict[str, bytes]:
        found = {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        return {str(name): content for name, content in found.items() if name.name != ".lock"}

    before = files(published)
    assert files(copies) == before and (release / "manifest.json").is_file()
    assert deid_here(home, "key", "export", "--output", tmp_path / "key.pem")[0] == 0
    assert deid_here(home, "verify", copies / "flat_table" / "0001", "--key", tmp_path / "key.pem")[0] == PUBLISHED
    assert deid_here(home, "audit", "flat_table/0001")[0] == 0
    exit_code, printed = deid_here(home, "reproduce", "flat_table/0001")
    assert exit_code == 0, printed
    assert files(published) == files(copies) == before and not list(home.rglob("*.db"))
    exit_code, printed = deid_here(home, "run", "--policy", "flat_table", "--delivery", url)
    assert exit_code == PUBLISHED and "Unchanged" in printed
