"""Where things lie: the home and its folders, deliveries that were registered, the instance's settings."""

import errno
import os
import shutil
import stat
from pathlib import Path

import pytest
import yaml

from deid_assets.automation.instance import dagster_instance, prepare_dagster_home, workspace_file
from deid_assets.errors import DeliveryError, StoreError
from deid_assets.sources.delivery import Delivery
from deid_assets.sources.registration import delivery_file, register_delivery, registered_delivery
from deid_assets.store.home import Home


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


class TestHome:
    def test_deid_home_moves_it_and_a_relative_one_becomes_absolute(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        monkeypatch.delenv("DEID_HOME", raising=False)
        assert Home.here().root == tmp_path / ".deid"
        monkeypatch.setenv("DEID_HOME", "elsewhere")
        assert Home.here().root == tmp_path / "elsewhere"

    @pytest.mark.parametrize("value", ["", "  ", "a_file"])
    def test_one_that_is_no_folder_is_an_error(self, tmp_path, monkeypatch, value):
        """Empty, it would be the current folder, which nobody meant."""
        monkeypatch.chdir(tmp_path)
        (tmp_path / "a_file").write_text("")
        monkeypatch.setenv("DEID_HOME", value)
        with pytest.raises(StoreError, match="DEID_HOME is empty, or names a file"):
            Home.here()

    @pytest.mark.parametrize("below", ["store", "releases/small"])
    def test_none_begins_in_another_one(self, tmp_path, monkeypatch, below):
        home = Home(tmp_path / "deid").create()
        home.journal.write_text("")
        monkeypatch.setenv("DEID_HOME", str(home.root))
        assert Home.here() == home
        monkeypatch.setenv("DEID_HOME", str(home.root / below))
        with pytest.raises(StoreError, match=f"{below} is in the home {home.root}, and none itself: set DEID_HOME to"):
            Home.here()

    def test_asking_where_it_is_makes_nothing(self, tmp_path, monkeypatch):
        monkeypatch.setenv("DEID_HOME", str(tmp_path / "deid"))
        Home.here()
        assert not (tmp_path / "deid").exists()

    def test_what_may_tell_about_a_person_is_for_the_owner_only(self, tmp_path):
        old = os.umask(0o022)
        try:
            home = Home(tmp_path / "deid").create()
        finally:
            os.umask(old)
        assert [mode(folder) for folder in (home.store, home.deliveries, home.keys)] == [0o700] * 3
        assert all(folder.is_dir() for folder in (home.dagster, home.releases, home.policies))

    def test_making_it_again_changes_nothing(self, tmp_path):
        home = Home(tmp_path).create()
        (home.store / "kept").write_text("x")
        home.create()
        assert (home.store / "kept").read_text() == "x"

    def test_every_folder_lies_below_the_root(self, tmp_path):
        home = Home(tmp_path)
        folders = {home.dagster, home.store, home.releases, home.policies, home.deliveries, home.keys}
        assert len(folders) == 6 and {folder.parent for folder in folders} == {tmp_path}

    @pytest.mark.parametrize("name", ["", "below", "store", "releases", "keys"])
    def test_what_cannot_be_a_home_is_one_sentence(self, tmp_path, name):
        in_the_way = tmp_path / "deid" if name in ("", "below") else tmp_path / "deid" / name
        in_the_way.parent.mkdir(parents=True, exist_ok=True)
        in_the_way.write_text("a file")
        root = in_the_way / "below" if name == "below" else tmp_path / "deid"
        with pytest.raises(
            StoreError, match="the home .* cannot be used: .*; put the folder back, .*name another one with DEID_HOME"
        ) as caught:
            Home(root).create()
        assert caught.value.__cause__ is None

    def test_a_folder_of_somebody_else_is_one_sentence(self, tmp_path, monkeypatch):
        def not_ours(*_):
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

        monkeypatch.setattr(os, "chmod", not_ours)
        with pytest.raises(StoreError, match="Operation not permitted"):
            Home(tmp_path).create()

    def test_a_name_that_is_too_long_is_one_sentence(self, monkeypatch):
        monkeypatch.setenv("DEID_HOME", "x" * 300)
        with pytest.raises(StoreError, match="DEID_HOME cannot be used: File name too long"):
            Home.here()


class TestReleasesElsewhere:
    @pytest.fixture
    def elsewhere(self, tmp_path, monkeypatch) -> Path:
        monkeypatch.setenv("DEID_HOME", str(tmp_path / "deid"))
        monkeypatch.setenv("DEID_PUBLISHED", str(tmp_path / "shared" / "published"))
        return tmp_path / "shared" / "published"

    def test_the_home_remembers_where_they_are_and_is_its_owners_alone(self, tmp_path, elsewhere, monkeypatch):
        home = Home.here().create()
        assert home.releases == elsewhere and elsewhere.is_dir() and mode(home.root) == 0o700
        monkeypatch.delenv("DEID_PUBLISHED")
        for again in (Home.here(), Home.here().create(), Home(tmp_path / "deid").create()):
            assert again == home and again.releases == elsewhere

    def test_asking_where_they_are_makes_nothing(self, tmp_path, elsewhere):
        Home.here()
        assert not list(tmp_path.iterdir())

    def test_another_folder_later_is_refused(self, tmp_path, elsewhere, monkeypatch):
        """The registry stays behind, and with it what is known of earlier releases."""
        Home.here().create()
        monkeypatch.setenv("DEID_PUBLISHED", str(tmp_path / "other"))
        with pytest.raises(
            StoreError, match="but the releases of the home .* are in .*/shared/published. Unset it; or move them"
        ):
            Home.here()
        assert not (tmp_path / "other").exists()

    @pytest.mark.parametrize("left", [[], ["a_policy"]], ids=["nothing", "an empty mount point"])
    def test_a_disk_that_is_not_mounted_is_refused(self, tmp_path, elsewhere, monkeypatch, left):
        """Otherwise refused tries, charged noise and earlier releases would be forgotten."""
        home = Home.here().create()
        elsewhere.rename(tmp_path / "unmounted")
        for name in left:
            (elsewhere / name).mkdir(parents=True)
        for ask in (Home.here, home.create, Home(home.root).create):
            with pytest.raises(
                StoreError, match="the releases of the home .* are not in .*: mount the disk, or restore the folder"
            ):
                ask()
        shutil.rmtree(elsewhere, ignore_errors=True)
        (tmp_path / "unmounted").rename(elsewhere)
        assert Home.here().create().releases == elsewhere

    def test_a_home_that_has_released_is_moved_by_hand(self, tmp_path, elsewhere, monkeypatch):
        monkeypatch.delenv("DEID_PUBLISHED")
        home = Home.here().create()
        for name in (".lock", "registry.jsonl"):
            (home.releases / name).touch()
        monkeypatch.setenv("DEID_PUBLISHED", str(elsewhere))
        with pytest.raises(StoreError, match="has releases of its own. Unset DEID_PUBLISHED; or move .* link it: ln -s"):
            Home.here().create()
        assert (home.releases / "registry.jsonl").exists()
        elsewhere.parent.mkdir()
        home.releases.rename(elsewhere)
        (home.root / "releases").symlink_to(elsewhere)
        assert (Home.here().create().releases / "registry.jsonl").exists()

    def test_a_lock_in_the_home_is_no_release(self, elsewhere, monkeypatch):
        monkeypatch.delenv("DEID_PUBLISHED")
        (Home.here().create().releases / ".lock").touch()
        monkeypatch.setenv("DEID_PUBLISHED", str(elsewhere))
        assert Home.here().create().releases == elsewhere

    def test_the_folder_of_another_home_is_refused(self, tmp_path, elsewhere, monkeypatch):
        (Home.here().create().releases / "registry.jsonl").touch()
        monkeypatch.setenv("DEID_HOME", str(tmp_path / "second"))
        with pytest.raises(StoreError, match="is not empty: each home has a folder of its own"):
            Home.here().create()

    def test_so_is_that_of_another_home_before_its_first_release(self, tmp_path, elsewhere, monkeypatch):
        first = Home.here().create()
        (first.root / "releases").unlink()  # a crash before the link is made
        assert Home.here().create().releases == elsewhere
        monkeypatch.setenv("DEID_HOME", str(tmp_path / "second"))
        with pytest.raises(StoreError, match="which another home has for its releases: .* If that home is gone, remove .*lock"):
            Home.here().create()
        assert not (tmp_path / "second" / "releases").is_symlink() and Home(first.root).create().releases == elsewhere

    @pytest.mark.parametrize("place", ["deid", "deid/keys/published", "."])
    def test_a_folder_in_the_home_or_around_it_is_refused(self, tmp_path, elsewhere, monkeypatch, place):
        monkeypatch.setenv("DEID_PUBLISHED", str(tmp_path / place))
        with pytest.raises(StoreError, match="is in the home .*, or contains it: name a folder elsewhere"):
            Home.here().create()

    def test_an_empty_name_is_an_error(self, elsewhere, monkeypatch):
        monkeypatch.setenv("DEID_PUBLISHED", " ")
        with pytest.raises(StoreError, match="DEID_PUBLISHED is empty"):
            Home.here()

    def test_a_folder_that_cannot_be_made_is_one_sentence(self, tmp_path, elsewhere):
        elsewhere.parent.write_text("a file")
        with pytest.raises(StoreError, match="published is not a folder that you can write to"):
            Home.here().create()


class TestRegistration:
    @pytest.fixture
    def home(self, tmp_path) -> Home:
        return Home(tmp_path).create()

    def delivery(self, **changes) -> Delivery:
        return Delivery(**({"key": "2012-04", "kind": "tables", "paths": (Path("in"),)} | changes))

    def test_a_delivery_is_found_again_under_its_key(self, home):
        register_delivery(home, self.delivery(parameters={"release": 5}))
        assert registered_delivery(home, "2012-04") == self.delivery(parameters={"release": 5})

    def test_its_record_is_for_the_owner_only(self, home):
        register_delivery(home, self.delivery())
        assert mode(delivery_file(home, "2012-04")) == 0o600

    def test_registering_the_same_again_is_harmless_and_another_is_refused(self, home):
        register_delivery(home, self.delivery())
        register_delivery(home, self.delivery())
        with pytest.raises(DeliveryError, match="a different delivery is registered as 2012-04"):
            register_delivery(home, self.delivery(paths=(Path("elsewhere"),)))
        assert registered_delivery(home, "2012-04") == self.delivery()

    @pytest.mark.parametrize(
        ("registered", "asked", "differs"),
        [
            ({}, {"kind": "desynpuf"}, "its kind is tables, and not desynpuf"),
            ({}, {"paths": (Path("elsewhere"),)}, "it has another path"),
            ({"parameters": {"release": 5}}, {}, "--release was 5, and is not given now"),
            ({"parameters": {"release": 5}}, {"parameters": {"release": 6}}, "--release was 5, and is 6 now"),
            ({"complete_when": "_SUCCESS"}, {"complete_when": "done"}, "another file says that it is complete"),
        ],
    )
    def test_the_refusal_of_another_delivery_says_in_what_it_differs(self, home, registered, asked, differs):
        register_delivery(home, self.delivery(**registered))
        with pytest.raises(DeliveryError, match=f"registered as 2012-04: {differs}; give this one another key"):
            register_delivery(home, self.delivery(**asked))

    @pytest.mark.parametrize("named_first", [True, False])
    def test_a_delivery_of_a_watched_folder_that_somebody_names_as_well_keeps_its_marker(self, home, named_first):
        """So that a delivery which the sensor took in can be run on the command line, and is final all the same."""
        watched, named = self.delivery(complete_when="_SUCCESS"), self.delivery()
        first, second = (named, watched) if named_first else (watched, named)
        assert register_delivery(home, first) == first
        assert register_delivery(home, second) == watched == registered_delivery(home, "2012-04")

    def test_a_delivery_with_another_marker_or_a_marker_and_another_path_is_refused(self, home):
        register_delivery(home, self.delivery(complete_when="_SUCCESS"))
        for other in ({"complete_when": "done"}, {"paths": (Path("elsewhere"),)}):
            with pytest.raises(DeliveryError, match="a different delivery is registered as 2012-04"):
                register_delivery(home, self.delivery(**other))

    def test_a_damaged_record_is_named(self, home):
        delivery_file(home, "2012-04").write_text("{}")
        for ask in (lambda: register_delivery(home, self.delivery()), lambda: registered_delivery(home, "2012-04")):
            with pytest.raises(DeliveryError, match=r"deliveries/2012-04.json: this is not the record of a delivery"):
                ask()

    @pytest.mark.parametrize("place", ["", "deid", "deid/keys", "deid/store/x.duckdb", "deid/deliveries", "link"])
    def test_a_delivery_that_holds_the_home_or_lies_in_it_is_refused(self, tmp_path, place):
        """A policy chooses which file of a delivery is read."""
        home = Home(tmp_path / "deid").create()
        (tmp_path / "link").symlink_to(home.keys)
        with pytest.raises(DeliveryError, match="its folder contains the home .* or is inside it"):
            register_delivery(home, self.delivery(paths=(tmp_path / "beside", tmp_path / place)))
        assert not delivery_file(home, "2012-04").exists()

    def test_a_record_that_is_a_pipe_is_not_waited_for(self, home):
        os.mkfifo(delivery_file(home, "2012-04"))
        for ask in (lambda: register_delivery(home, self.delivery()), lambda: registered_delivery(home, "2012-04")):
            with pytest.raises(DeliveryError, match="the record deliveries/2012-04.json: it is a pipe"):
                ask()

    def test_a_synthetic_delivery_lies_in_the_home(self, home):
        register_delivery(home, self.delivery(paths=(home.deliveries / "synthetic-10-1",)))

    @pytest.mark.parametrize("key", ["../keys/x", "/tmp/x", "a/b", "a..b", "", "x" * 129, "a\n"])
    def test_a_key_that_leads_elsewhere_is_refused(self, home, key):
        """A partition can be added by hand in the UI, under any name."""
        with pytest.raises(DeliveryError, match="a delivery's key may contain"):
            registered_delivery(home, key)

    def test_an_unknown_key_says_what_to_do(self, home):
        with pytest.raises(DeliveryError, match="no delivery is registered as 2013; .*registers it"):
            registered_delivery(home, "2013")


class TestInstance:
    def test_the_settings_lie_in_the_instances_folder(self, tmp_path):
        home = Home(tmp_path)
        prepare_dagster_home(home)
        settings = yaml.safe_load((home.dagster / "dagster.yaml").read_text())
        assert settings["telemetry"] == {"enabled": False}
        assert settings["nux"] == {"enabled": False}

    def test_one_run_at_a_time_for_each_store(self, tmp_path):
        prepare_dagster_home(Home(tmp_path))
        settings = yaml.safe_load((tmp_path / "home" / "dagster.yaml").read_text())
        (limit,) = settings["concurrency"]["runs"]["tag_concurrency_limits"]
        assert limit == {"key": "deid/store", "value": {"applyLimitPerUniqueValue": True}, "limit": 1}

    def test_settings_are_renewed_and_nothing_else_is_touched(self, tmp_path):
        home = Home(tmp_path)
        prepare_dagster_home(home)
        (home.dagster / "history").write_text("kept")
        (home.dagster / "dagster.yaml").write_text("old")
        prepare_dagster_home(home)
        assert (home.dagster / "history").read_text() == "kept"
        assert (home.dagster / "dagster.yaml").read_text() != "old"

    def test_the_workspace_names_the_code_location(self):
        (target,) = yaml.safe_load(workspace_file().read_text())["load_from"]
        assert target == {"python_module": {"module_name": "deid_assets.definitions", "location_name": "deid_assets"}}


def test_settings_that_are_a_folder_and_a_lock_that_is_one_are_named(tmp_path):
    home = Home(tmp_path / "deid").create()
    (home.dagster / "dagster.yaml").mkdir()
    with pytest.raises(StoreError, match=r"dagster\.yaml is not a file; remove it"):
        prepare_dagster_home(home)
    (home.dagster / "dagster.yaml").rmdir()
    (home.dagster / ".lock").mkdir()
    with pytest.raises(StoreError, match="home/\\.lock cannot be created: Is a directory; .*remove what is there"):
        prepare_dagster_home(home)


@pytest.mark.parametrize("file", ["history/runs.db", "history/runs/index.db", "schedules/schedules.db"])
def test_a_damaged_history_of_runs_is_named_with_what_to_do(tmp_path, file):
    home = Home(tmp_path / "deid").create()
    prepare_dagster_home(home)
    (home.dagster / file).parent.mkdir(parents=True, exist_ok=True)
    (home.dagster / file).write_bytes(b"no database" * 1000)

    def read():
        with dagster_instance(home) as instance:
            instance.get_runs()
            instance.get_dynamic_partitions("deliveries_of_small")
            instance.all_instigator_state()

    with pytest.raises(StoreError, match="the run history in .* is damaged: .* Move that folder away"):
        read()
