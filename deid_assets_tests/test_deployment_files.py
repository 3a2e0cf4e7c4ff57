"""The container file and the compose file that ship: what they refer to is there, and only one service has what is restricted.

`scenarios/test_deployment.py` runs their commands.
"""

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from dagster._cli import create_dagster_cli
from dagster._daemon.cli import create_dagster_daemon_cli
from dagster_webserver.cli import create_dagster_webserver_cli

import deid_assets
from deid_assets.automation.instance import workspace_file

FILES = Path(deid_assets.__file__).parent / "docs" / "deployment"
ROOT = FILES.parents[2]
COMPOSE = yaml.safe_load((FILES / "compose.yaml").read_text())
SERVICES = COMPOSE["services"]
CONTAINERFILE = (FILES / "Containerfile").read_text()
PROGRAMS = {
    "dagster": create_dagster_cli,
    "dagster-webserver": create_dagster_webserver_cli,
    "dagster-daemon": create_dagster_daemon_cli,
}
RESTRICTED = {"DEID_HOME", "DEID_PUBLISHED", "DEID_SECRET_FILE"}


def copied() -> list[str]:
    """The sources of every COPY of the container file."""
    lines = re.findall(r"^COPY (?:--chown=\S+ )?(.+)$", CONTAINERFILE, re.MULTILINE)
    return [source for line in lines for source in line.split()[:-1]]


def test_there_are_the_four_services():
    assert set(SERVICES) == {"database", "code", "webserver", "daemon"}


def test_only_the_code_location_has_the_store_the_secret_and_deliveries():
    assert set(SERVICES["code"]["environment"]) == RESTRICTED | {"DEID_STORAGE"}
    assert SERVICES["code"]["secrets"] == ["secret"]
    mounted = [volume.rpartition(":/")[2] for volume in SERVICES["code"]["volumes"]]
    assert mounted == ["var/lib/deid", "srv/published", "in:ro"]
    for name in ("webserver", "daemon"):
        assert set(SERVICES[name]["environment"]) == {"DEID_STORAGE"}
        assert not {"volumes", "secrets"} & set(SERVICES[name])
        assert SERVICES[name]["user"] != SERVICES["code"]["user"]


def test_the_ui_listens_on_the_loopback_and_nothing_else_is_open():
    assert SERVICES["webserver"]["ports"] == ["127.0.0.1:3000:3000"]
    assert [name for name, service in SERVICES.items() if "ports" in service] == ["webserver"]


def test_every_reference_resolves():
    for name, service in SERVICES.items():
        assert set(service.get("depends_on", {})) <= set(SERVICES), name
        assert {on for on in service.get("depends_on", {}) if "healthcheck" not in SERVICES[on]} == set(), name
        assert set(service.get("secrets", [])) <= set(COMPOSE["secrets"]), name
        named = {volume.split(":")[0] for volume in service.get("volumes", []) if not volume.startswith(("$", "/", "."))}
        assert named <= set(COMPOSE["volumes"]), name
    build = SERVICES["code"]["build"]
    assert (FILES / build["context"]).resolve() == ROOT.resolve()
    assert (ROOT / build["dockerfile"]).resolve() == (FILES / "Containerfile").resolve()


def test_images_are_named_without_a_registry():
    images = re.findall(r"^FROM (\S+)", CONTAINERFILE, re.MULTILINE) + [service["image"] for service in SERVICES.values()]
    assert images and not [image for image in images if "/" in image or image.endswith("latest")]


@pytest.mark.parametrize("service", ["code", "webserver", "daemon"])
def test_commands_are_programs_of_the_image_with_their_options(service):
    for words in (SERVICES[service]["command"], SERVICES[service].get("healthcheck", {}).get("test", [])[1:]):
        if not words:
            continue
        program, *arguments = words
        subcommands = [word for word in arguments if re.match(r"[a-z-]+\Z", word) and not word.startswith("-")]
        options = {word for word in arguments if word.startswith("-")}
        known = CliRunner().invoke(PROGRAMS[program](), [*subcommands, "--help"]).output
        assert options and {one for one in options if not re.search(rf"(^|\s){one}\b", known)} == set()


def test_the_image_installs_extras_and_copies_files_that_are_there():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (named,) = re.findall(r"'\.\[([a-z,]+)\]'", CONTAINERFILE)
    assert "postgres" in named.split(",") and set(named.split(",")) <= set(extras)
    assert "deid_assets" in copied() and not [source for source in copied() if not (ROOT / source).exists()]


def test_users_of_the_services_are_made_in_the_image():
    made = set(re.findall(r"useradd --system --uid \d+ (?:--groups \w+ )?(\w+)", CONTAINERFILE))
    assert {service["user"] for service in SERVICES.values() if "user" in service} == made
    assert "install -d -o deid -m 0700 /var/lib/deid" in CONTAINERFILE
    assert CONTAINERFILE.rstrip().endswith("USER dagster")


def test_webserver_and_daemon_have_the_settings_of_every_home():
    shipped = yaml.safe_load((workspace_file().parent / "dagster.yaml").read_text())
    postgres = {"storage": {"postgres": {"postgres_url": {"env": "DEID_STORAGE"}}}}
    assert yaml.safe_load((FILES / "dagster.yaml").read_text()) == shipped | postgres


def test_the_workspace_asks_the_code_location_where_it_listens():
    (location,) = yaml.safe_load((FILES / "workspace.yaml").read_text())["load_from"]
    command = SERVICES["code"]["command"]
    port = command[command.index("-p") + 1]
    assert location == {"grpc_server": {"host": "code", "port": int(port), "location_name": "deid_assets"}}
