"""Withdrawn releases and members: a signed line of the registry, a list of the home, and where somebody is."""

import json
import stat
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

from deid_assets.assets import flat
from deid_assets.command_line.deciding import releases_here
from deid_assets.command_line.main import main
from deid_assets.command_line.options import Asked
from deid_assets.command_line.progress import progress_of
from deid_assets.command_line.run import run_policy
from deid_assets.errors import PolicyError, RefusedError, ReleaseError
from deid_assets.policy.loading import find_policy, policies_in, policy_by_name, policy_called
from deid_assets.policy.withdrawals import FILE, OptOutLine, note, withdrawn_members
from deid_assets.release.cumulative import last_generalization, releases_before, releases_made
from deid_assets.release.keyring import signing_key_of
from deid_assets.release.keys import Secret, SigningKey
from deid_assets.release.known_people import whereabouts
from deid_assets.release.opt_outs import enter_opt_out
from deid_assets.release.publication.publish import Releases
from deid_assets.release.publication.verification import verify_release
from deid_assets.release.registry.chain import ClockCorrection, Withdrawal, signed_rotation
from deid_assets.resources import Workplace
from deid_assets.store.home import Home
from deid_assets_tests.release.making import SECRET, publish
from deid_assets_tests.scenarios.policies import SMALL, write_policy
from deid_assets_tests.scenarios.test_flat_release import FLAT

TIME = "2024-02-01T00:00:00Z"


def withdrawn(releases, reason="a column was wrong"):
    publish(releases, "first", with_tables=False)
    return releases.withdraw("heritage", 1, reason)


class TestWithdrawnReleases:
    def test_stay_where_they_are_and_are_not_in_order_any_more(self, releases):
        folder = releases.path("heritage", 1)
        line = withdrawn(releases)
        assert releases.registry.chain().withdrawal_of("heritage", 1) == line
        assert releases.registry.chain().withdrawn == {("heritage", 1)}
        assert (folder / "manifest.json").exists() and releases.registry.chain().find("heritage", 1) is not None
        report = verify_release(folder, releases.key.public, releases.registry.path)
        assert [check.name for check in report.failures] == ["the release was not withdrawn"]
        assert "a column was wrong" in report.text()
        assert verify_release(folder, releases.key.public).ok, "who has no registry cannot know"

    def test_others_stay_in_order(self, releases):
        publish(releases, "first", with_tables=False)
        publish(releases, "second", with_tables=False)
        releases.withdraw("heritage", 1, "a column was wrong")
        assert verify_release(releases.path("heritage", 2), releases.key.public, releases.registry.path).ok

    @pytest.mark.parametrize(("number", "reason", "says"), [(2, "x", "no release heritage/0002"), (1, " ", "needs a reason")])
    def test_need_a_release_and_a_reason(self, releases, number, reason, says):
        publish(releases, "first", with_tables=False)
        before = releases.registry.path.read_bytes()
        with pytest.raises(ReleaseError, match=says):
            releases.withdraw("heritage", number, reason)
        assert releases.registry.path.read_bytes() == before

    def test_are_withdrawn_once(self, releases):
        line = withdrawn(releases)
        with pytest.raises(ReleaseError, match="was withdrawn before"):
            releases.withdraw("heritage", 1, "again")
        again = replace(line, previous=releases.registry.head).signed(releases.key)
        releases.registry.path.write_bytes(releases.registry.path.read_bytes() + again.line)
        assert "line 3 of the registry withdraws a release that is not registered" in read_problem(releases)

    def test_cannot_be_withdrawn_by_another_key_or_without_a_signature(self, releases, tmp_path):
        entry = publish(releases, "first", with_tables=False).entry
        other = SigningKey.load_or_create(tmp_path / "other")
        line = Withdrawal("heritage", 1, "x", previous=entry.hash, time=TIME)
        for wrong in (replace(line.signed(releases.key), reason="y"), replace(line.signed(releases.key), reason="")):
            with pytest.raises(ReleaseError, match="its signature is not valid"):
                wrong.require_signed()
        releases.registry.append(ClockCorrection("fixed", previous=entry.hash, time=TIME).signed(releases.key))
        line = replace(line, previous=releases.registry.head)
        rotation = signed_rotation(releases.key, other, "", releases.registry.head, TIME)
        releases.registry.append(rotation)
        releases.registry.append(replace(line, previous=rotation.hash).signed(releases.key))
        assert "is signed by a key that was not in force" in read_problem(releases)

    def test_count_as_earlier_releases_but_are_not_pinned_to(self, releases):
        withdrawn(releases)
        made = [replace(one, generalization={"age": "years"}) for one in made_in(releases)]
        assert (
            [one.name for one in made]
            == ["heritage/0001"]
            == [one.name for one in releases_before(made, SECRET.commitment(), "d")]
        )
        assert last_generalization(made, "heritage") == {"age": "years"}
        assert last_generalization(made, "heritage", {("heritage", 1)}) is None


def made_in(releases):
    return list(releases_made(releases.restricted, releases.registry))


def read_problem(releases):
    with pytest.raises(ReleaseError) as problem:
        releases.registry.chain()
    return str(problem.value)


class TestKeptRows:
    def test_of_another_secret_or_of_an_earlier_version_cannot_be_compared(self, releases):
        publish(releases, "first", with_tables=False)
        (own,) = releases_before(made_in(releases), SECRET.commitment(), "d")
        (other,) = releases_before(made_in(releases), "0" * 64, "d")
        assert own.tags is not None and own.file is None and other.tags is None
        with pytest.raises(RefusedError, match="did not keep its generalization"):
            last_generalization(made_in(releases), "heritage")
        assert last_generalization(made_in(releases), "another") is None

    @pytest.mark.parametrize("harm", ["changed", "gone"])
    def test_that_are_not_those_that_were_kept_are_an_error(self, releases, harm):
        publish(releases, "first", with_tables=False)
        made = replace(made_in(releases)[0], rows_digest="a" * 64)
        (rows,) = releases_before([made], SECRET.commitment(), "d")
        file = releases.restricted / "heritage" / "0001.rows.parquet"
        if harm == "gone":
            file.unlink()
        with pytest.raises(ReleaseError, match="or its rows, cannot be read"):
            rows.file()


class TestWhereabouts:
    def test_say_who_is_in_which_release(self, releases):
        publish(releases, "first", with_tables=False)
        made = made_in(releases)
        assert [one.released for one in whereabouts("member 1", made, SECRET)] == [True]
        assert [one.released for one in whereabouts("member 3", made, SECRET)] == [False]
        assert [one.released for one in whereabouts("member 1", made, Secret(bytes(32), "environment"))] == [None]
        without = replace(made[0], tags=np.empty(0, dtype="<u8"))
        assert [one.released for one in whereabouts("member 1", [without], SECRET)] == [None]


def line(member_id="m1", listed=True, reason="asked", time=TIME):
    return OptOutLine(member_id, listed, reason, time)


class TestOptOuts:
    def test_are_listed_and_taken_off(self, tmp_path):
        assert withdrawn_members([tmp_path]) == ()
        assert note(tmp_path, line()) and not note(tmp_path, line()) and note(tmp_path, line("m0"))
        assert withdrawn_members([tmp_path, tmp_path / "nowhere"]) == ("m0", "m1")
        assert note(tmp_path, line(listed=False)) and not note(tmp_path, line(listed=False))
        assert withdrawn_members([tmp_path]) == ("m0",)
        assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600
        assert len((tmp_path / FILE).read_text().splitlines()) == 3, "lines are never removed"
        assert "m1" not in repr(line())

    @pytest.mark.parametrize("wrong", [line(""), line(" m1"), line(reason=" ")])
    def test_need_an_identifier_and_a_reason(self, tmp_path, wrong):
        with pytest.raises(PolicyError, match="needs the member's identifier"):
            note(tmp_path, wrong)

    @pytest.mark.parametrize("content", ["{", "[]", '{"member_id": "m1"}', json.dumps(vars(line()) | {"listed": 1})])
    def test_a_damaged_list_lets_nothing_pass_and_is_not_quoted(self, tmp_path, content):
        write_policy(tmp_path, SMALL)
        (tmp_path / FILE).write_text(content + "\n")
        for use in (lambda: policies_in(tmp_path), lambda: policy_called("small", tmp_path), lambda: note(tmp_path, line())):
            with pytest.raises(PolicyError, match="the list of opt-outs, opt_outs.jsonl .* is damaged") as error:
                use()
            assert "m1" not in str(error.value) and error.value.__cause__ is None

    def test_a_list_that_cannot_be_written_is_said(self, tmp_path, monkeypatch):
        def fails(*_):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("deid_assets.store.durable.write_all", fails)
        with pytest.raises(PolicyError, match="cannot be written: No space left on device"):
            note(tmp_path, line())

    def test_a_link_is_no_list(self, tmp_path):
        (tmp_path / "elsewhere").touch()
        (tmp_path / FILE).symlink_to(tmp_path / "elsewhere")
        with pytest.raises(PolicyError, match="is damaged"):
            note(tmp_path, line())

    @pytest.mark.parametrize("is_whole", [True, False])
    def test_what_a_crash_left_of_a_line_is_ended_or_removed(self, tmp_path, is_whole):
        note(tmp_path, line())
        note(tmp_path, line("m2"))
        whole = (tmp_path / FILE).read_bytes()
        (tmp_path / FILE).write_bytes(whole[: -1 if is_whole else -5])
        listed = ("m1", "m2") if is_whole else ("m1",)
        assert withdrawn_members([tmp_path]) == listed
        note(tmp_path, line("m3"))
        assert withdrawn_members([tmp_path]) == (*listed, "m3")
        assert (tmp_path / FILE).read_bytes().count(b"\n") == len(listed) + 1

    def test_are_part_of_every_policy_with_members(self, tmp_path):
        write_policy(tmp_path, SMALL)
        before = policy_called("small", tmp_path)
        note(tmp_path, line())
        for after in (policy_called("small", tmp_path), policies_in(tmp_path)["small"]):
            assert after.opt_outs.withdrawn == ("m1",) and after.opt_outs.all_members == ()
            assert after.hash != before.hash and after.section_hash("opt_outs") != before.section_hash("opt_outs")
            assert after.reading != before.reading and after.public_hash == before.public_hash
            assert "m1" not in repr(after) and after.without_withdrawn(()).hash == before.hash

    def test_are_an_error_of_a_flat_policy_that_cannot_tell_whose_a_record_is(self, tmp_path):
        write_policy(tmp_path, FLAT)
        assert flat.persons_of(policy_called("flat_table", tmp_path)) is None
        note(tmp_path, line())
        with pytest.raises(PolicyError, match="policy flat_table: people opted out of all releases of this home, and nothing"):
            flat.persons_of(policy_called("flat_table", tmp_path))
        write_policy(tmp_path, FLAT | {"source": {"kind": "flat", "file": "people.csv", "person": "name"}})
        assert flat.persons_of(policy_called("flat_table", tmp_path)).opted_out.everybody == ["m1"]

    def test_are_applied_wherever_a_policy_comes_from(self, tmp_path, monkeypatch):
        """A release without them has other inputs than one with them, so that `deid run` does not take it for the same."""
        home = Home(tmp_path / "deid").create()
        written = write_policy(tmp_path / "elsewhere", SMALL)
        write_policy(home.policies, SMALL)
        enter_opt_out(releases_here(home), line())
        given = Workplace(str(home.root), {"small": written})
        at_home = find_policy(home, str(home.policies / "small.yaml"))[0]
        for found in (given.named("small"), find_policy(home, "small")[0], at_home, policy_by_name("small", [home.policies])):
            assert found.opt_outs.withdrawn == ("m1",)
        (home.policies / "small.yaml").unlink()
        asked = []

        def work(task, _lock):
            asked.append(task.policy)
            return 0

        run_policy(home, Asked(str(tmp_path / "elsewhere" / "small.yaml"), (tmp_path / "elsewhere",)), progress_of(), work=work)
        assert asked[0].opt_outs.withdrawn == ("m1",)


class TestCommands:
    @pytest.fixture
    def home(self, tmp_path, monkeypatch):
        made = Home(tmp_path / "deid").create()
        monkeypatch.setenv("DEID_HOME", str(made.root))
        monkeypatch.setenv("DEID_SECRET", "another secret of tests, which is long enough")
        return made

    @staticmethod
    def deid(*arguments, typed=None):
        result = CliRunner().invoke(main, list(arguments), input=typed)
        return result.exit_code, " ".join(result.output.split())

    def test_where_somebody_is_and_what_was_withdrawn(self, home):
        assert self.deid("member", "where", "member 1") == (0, "Nothing has been published here.")
        publish(Releases(home, signing_key_of(home)), "first", with_tables=False)
        code, printed = self.deid("member", "where", "-", typed="member 1\n")
        assert code == 0 and "heritage/0001 delivery 2024 cannot be told" in printed and "made with another secret" in printed
        code, printed = self.deid("release", "withdraw", "heritage/0001", "--reason", "a column was wrong")
        assert code == 0 and "heritage/0001 is withdrawn" in printed
        assert "withdrawn: a column was wrong" in self.deid("releases")[1]
        assert "cannot be told withdrawn" in self.deid("member", "where", "member 1")[1]

    @pytest.mark.parametrize("name", ["heritage", "heritage/x", "heritage/0001"])
    def test_what_is_no_release_cannot_be_withdrawn(self, home, name):
        assert self.deid("release", "withdraw", name, "--reason", "x")[0] == 1

    def test_opting_out_and_in(self, home):
        code, printed = self.deid("member", "opt-out", "m1", "--reason", "asked")
        assert code == 0 and "now on the list" in printed and "m1" not in printed
        assert "on the list of opt-outs already" in self.deid("member", "opt-out", "-", "--reason", "x", typed="m1\n")[1]
        assert withdrawn_members([home.policies]) == ("m1",)
        assert "now not on the list" in self.deid("member", "opt-in", "m1", "--reason", "misspelled")[1]
        assert withdrawn_members([home.policies]) == ()
