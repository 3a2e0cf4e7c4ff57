"""The stages and the definitions say the same: every asset exists for each policy, checked, described, partitioned."""

import re

import dagster as dg
import pytest

from deid_assets.assessments.registry import gates_of
from deid_assets.assets.publishing import gating_checks
from deid_assets.assets.step import StageAsset
from deid_assets.assets.whole_stage import upstream
from deid_assets.building import build_definitions
from deid_assets.errors import ReleaseError
from deid_assets.partitions import deliveries_of
from deid_assets.policy.loading import policies_in, policy_by_name, policy_from
from deid_assets.release.published_tables import published_tables
from deid_assets.resources import Keys, job_name
from deid_assets.stages import STAGE_OF, WORK_OF, Work, before_release, stages_of
from deid_assets.stages import STAGES as DECLARED
from deid_assets.store.home import Home
from deid_assets_tests.policy.cohort_values import cohort_values
from deid_assets_tests.policy.policy_texts import public_values
from deid_assets_tests.scenarios.test_flat_release import FLAT
from deid_assets_tests.stages import COHORT_STAGES, FLAT_STAGES, STAGES

POLICIES = policies_in()


@pytest.fixture(scope="module")
def definitions(tmp_path_factory) -> dg.Definitions:
    return build_definitions(POLICIES, Home(tmp_path_factory.mktemp("home")))


@pytest.fixture(scope="module")
def graph(definitions):
    return definitions.resolve_asset_graph()


@pytest.fixture(scope="module")
def specs(definitions) -> dict[dg.AssetKey, dg.AssetSpec]:
    return {spec.key: spec for spec in definitions.resolve_all_asset_specs()}


def tables(policy: str) -> set[dg.AssetKey]:
    return {dg.AssetKey([policy, asset]) for assets in stages_of(POLICIES[policy]).values() for asset in assets}


def keys(policy: str) -> set[dg.AssetKey]:
    """Tables, whole stages, and published tables."""
    stages = {dg.AssetKey([policy, stage]) for stage in before_release(stages_of(POLICIES[policy]))}
    return tables(policy) | stages | {Keys(policy).published(table) for table in published_tables(POLICIES[policy])}


def stage_of(key: dg.AssetKey) -> str:
    """The stage of an asset: that of its table, its own, or the release."""
    if key.path[1] == "published":
        return "release"
    return STAGE_OF.get(key.path[1], key.path[1])


@pytest.mark.parametrize("stages", [STAGES, FLAT_STAGES, COHORT_STAGES])
def test_an_asset_is_in_one_stage(stages):
    listed = [(asset, stage) for stage, assets in stages.items() for asset in assets]
    assert len(listed) == len(dict(listed))
    assert all(STAGE_OF[asset] == stage for asset, stage in listed)


@pytest.mark.parametrize(("one", "other"), [(FLAT_STAGES, STAGES), (COHORT_STAGES, STAGES), (COHORT_STAGES, FLAT_STAGES)])
def test_only_what_does_the_same_is_called_alike_in_two_families(one, other):
    first, second = ({asset for assets in stages.values() for asset in assets} for stages in (one, other))
    shared = {*STAGES["counts"], "count_disclosure_audit", "release"}
    assert first & second - {"record_cross_release_risk"} == shared
    assert ("record_cross_release_risk" in first & second) == (STAGES not in (one, other)), "it links tables of people"


def test_the_work_of_a_step_divides_in_one_way_whatever_the_policy():
    declared = [(name, work) for made in DECLARED.values() for assets in made.values() for name, work in assets.items()]
    assert len(set(declared)) == len(dict(declared)) == len(WORK_OF)
    assert set(WORK_OF.values()) == set(Work)
    assert all(work.meaning.endswith(".") and work.meaning.count(".") == 1 for work in Work)


def test_the_stages_are_in_the_order_of_the_data():
    in_order = "intake preparation adversary generalization candidate accounting counts assessment release"
    assert list(STAGES) == in_order.split()


def test_no_table_is_called_like_a_stage_or_like_a_published_table():
    published = {table for policy in POLICIES.values() for table in published_tables(policy)} | {"Records", "People"}
    assert not set(STAGE_OF) & ((set(STAGE_OF.values()) - {"release"}) | published)


def test_every_asset_exists_for_each_policy_and_no_other(specs):
    assert set(specs) == set().union(*(keys(policy) for policy in POLICIES))


def test_no_asset_reads_one_of_a_later_stage(specs):
    place = {stage: number for number, stage in enumerate(STAGES)}
    for spec in specs.values():
        for dep in spec.deps:
            assert dep.asset_key.path[0] == spec.key.path[0], "policies do not read each other's data"
            assert place[stage_of(dep.asset_key)] <= place[stage_of(spec.key)], spec.key


def deps(definitions: dg.Definitions, key: dg.AssetKey) -> set[dg.AssetKey]:
    return set(definitions.resolve_asset_graph().get(key).parent_keys)


@pytest.mark.parametrize(
    "policy",
    [
        POLICIES["heritage"],
        POLICIES["claims_dates"],
        policy_from(FLAT),
        policy_from(cohort_values(owners=["team:privacy"])),
    ],
    ids=["longitudinal", "with dates", "flat", "cohort"],
)
class TestStages:
    """A release depends on the assets of stages, these on every table of theirs: nothing that the gate asks for is left out."""

    def test_a_release_depends_on_every_stage_before_it_and_on_nothing_else(self, policy, tmp_path):
        made, keys = build_definitions({policy.name: policy}, Home(tmp_path)), Keys(policy.name)
        stages = stages_of(policy)
        assert deps(made, keys.asset("release")) == {keys.asset(stage) for stage in stages if stage != "release"}

    def test_a_stage_depends_on_all_of_its_tables(self, policy, tmp_path):
        made, keys = build_definitions({policy.name: policy}, Home(tmp_path)), Keys(policy.name)
        behind = set()
        for stage, tables in stages_of(policy).items():
            if stage != "release":
                assert deps(made, keys.asset(stage)) == {keys.asset(table) for table in tables}
                behind |= deps(made, keys.asset(stage))
        assert behind == set(upstream(policy, keys.asset("release")))
        # Their checks block what comes after them, so a stage and its release are not made in a run in which one fails.
        checks = {spec.key: spec for one in made.asset_checks for spec in one.check_specs}
        gating = gating_checks(policy, keys.asset("release"))
        assert {check.asset_key for check in gating} == behind and all(checks[check].blocking for check in gating)

    def test_published_tables_are_made_with_the_release_and_never_without(self, policy, tmp_path):
        made, keys = build_definitions({policy.name: policy}, Home(tmp_path)), Keys(policy.name)
        graph = made.resolve_asset_graph()
        together = {keys.published(table) for table in published_tables(policy)} | {keys.asset("release")}
        assert len(together) > 1
        for key in together - {keys.asset("release")}:
            assert deps(made, key) == {keys.asset("release")}
            assert graph.get(key).execution_set_asset_keys == together
        alone = dg.define_asset_job("alone", dg.AssetSelection.assets(keys.asset("release")))
        with pytest.raises(dg.DagsterInvalidDefinitionError):
            dg.Definitions.merge(made, dg.Definitions(jobs=[alone])).resolve_job_def("alone")


def test_what_reads_a_table_of_no_stage_that_it_depends_on_is_refused():
    with pytest.raises(ReleaseError, match="judges reads members, and depends on none of their stages"):
        StageAsset(lambda step, members: None, {"release": {}}, "judges", ("members",), stages=("candidate",))


def test_every_asset_says_what_the_ui_shows(specs):
    for key, spec in specs.items():
        policy = key.path[0]
        assert spec.group_name == f"{policy}/{stage_of(key)}"
        assert spec.partitions_def == deliveries_of(policy)
        assert spec.description and spec.description.strip().endswith("."), key
        assert list(spec.owners) == list(POLICIES[policy].owners)
        assert spec.kinds & {"duckdb", "stage", "parquet"}
        assert ("duckdb" in spec.kinds) == (key in tables(policy))
        assert spec.code_version


class TestCodeVersions:
    """A version is the method's and the hash of the sections that the asset reads."""

    def versions(self, tmp_path, **changes) -> dict[str, str]:
        policy = policy_from(public_values(**changes))
        made = build_definitions({policy.name: policy}, Home(tmp_path))
        return {spec.key.path[-1]: spec.code_version for spec in made.resolve_all_asset_specs()}

    def test_a_changed_threshold_makes_no_intake_stale(self, tmp_path):
        before, after = self.versions(tmp_path), self.versions(tmp_path, risk__max_high_risk_share=0.004)
        changed = {asset for asset in before if before[asset] != after[asset]}
        assert {"generalization_lattice", "chosen_generalization", "longitudinal_risk", "release"} <= changed
        # How many members a bin of the number of claims must hold follows from the section risk: claims are cut by it.
        assert "truncated_claims" in changed
        untouched = {*STAGES["intake"], *STAGES["preparation"], *STAGES["adversary"], "value_domains"} - {"truncated_claims"}
        assert not changed & untouched

    @pytest.mark.parametrize(("mode", "stale"), [(None, False), ("choose", True)])
    def test_the_choice_reads_what_makes_the_rows_only_if_it_compares_them(self, tmp_path, mode, stale):
        blanked = {"providers_at_least": 30, "estimator": "counted"}
        before = self.versions(tmp_path, risk__nodes_by_gain=mode)
        after = self.versions(tmp_path, risk__nodes_by_gain=mode, provider_suppression=blanked)
        assert before["release_claims"] != after["release_claims"]
        for asset in ("chosen_generalization", "passed_over_nodes", "compared_nodes", "suppressed_members"):
            assert (before[asset] != after[asset]) == stale

    @pytest.mark.parametrize(
        ("section", "assets"),
        [
            ({"removal__newborn_days": 14}, {"eligible_claims"}),
            ({"sample__members": 19_000}, {"released_sample"}),
            ({"top_coding__percentile": 95}, {"grouped_claims", "member_profiles", "value_domains", "release_claims"}),
            ({"grouping__charlson": "deyo"}, {"comorbidity_codes", "grouped_claims"}),
            ({"long_tail__percentile": 90}, {"truncated_claims", "release"}),
            ({"adversary__power": 10}, {"adversary_power"}),
            ({"provider_suppression__providers_at_least": 30}, {"release_claims"}),
            ({"recipients__terms_of_use": "Others."}, {"release"}),
            ({"neighbor_attack__trials": 20_000}, {"neighbor_attack"}),
            ({"attack_sensitivity__trials": 20_000}, {"attack_sensitivity", "release"}),
            ({"population_estimates__unique_share_at_most": 0.1}, {"population_estimates", "release"}),
            ({"attribute_disclosure__t_at_most": 0.4}, {"attribute_disclosure", "release"}),
            ({"membership__draws": 500}, {"membership_disclosure", "release"}),
            ({"provider_graph__patterns_known": 3}, {"provider_graph_attack", "release"}),
            ({"inference": {"folds": 4}}, {"inference_channels", "release"}),
            ({"utility": {"folds": 4}}, {"utility", "release"}),
        ],
    )
    def test_an_asset_that_reads_a_section_has_another_version(self, tmp_path, section, assets):
        before, after = self.versions(tmp_path), self.versions(tmp_path, **section)
        changed = {asset for asset in before if before[asset] != after[asset]}
        assert assets <= changed
        assert not changed & {"members", "claims"}

    def test_who_opted_out_is_in_no_version(self, tmp_path):
        """A version is shown to everybody, and a guess could be tried on a plain digest; see `made_under`."""
        assert self.versions(tmp_path) == self.versions(tmp_path, opt_outs__members=["a person"])

    def test_a_description_changes_nothing(self, tmp_path):
        assert self.versions(tmp_path) == self.versions(tmp_path, title="Another title")


class TestChecks:
    def test_all_of_them_block_and_are_kept_by_delivery(self, definitions, graph):
        """Without `partitions_def` a pass for one delivery lets automation release another."""
        specs = [spec for checks in definitions.asset_checks for spec in checks.check_specs]
        assert {spec.key for spec in specs} == graph.asset_check_keys
        for spec in specs:
            assert spec.blocking and spec.description, spec.key
            assert spec.partitions_def == deliveries_of(spec.asset_key.path[0]), spec.key

    @pytest.mark.parametrize("policy", POLICIES)
    def test_every_risk_and_every_published_table_is_checked(self, graph, policy):
        found = {(key.asset_key.path[1], key.name) for key in graph.asset_check_keys if key.asset_key.path[0] == policy}
        assert {(asset, gate.check) for asset, gate in gates_of(POLICIES[policy])} <= found
        tables = ("members", "claims", "grouped_claims", "truncated_claims", *STAGES["candidate"])
        assert {(asset, f"{asset}_keeps_contract") for asset in tables} <= found

    def test_names_are_statements(self):
        gates = [gate for _, gate in gates_of(policy_by_name("heritage"))]
        statement = re.compile(r"[a-z0-9_]+_within_threshold|no_[a-z0-9_]+_is_[a-z0-9_]+")
        assert all(statement.fullmatch(gate.check) and gate.statement.endswith(".") for gate in gates)


class TestJobs:
    @pytest.mark.parametrize("policy", POLICIES)
    def test_the_main_job_makes_everything_of_its_policy(self, definitions, policy):
        job = definitions.resolve_job_def(job_name(policy))
        assert set(job.asset_layer.selected_asset_keys) == keys(policy)
        assert job.partitions_def == deliveries_of(policy)

    def test_a_run_carries_the_tag_by_which_runs_of_a_store_wait_for_each_other(self, definitions):
        with dg.DagsterInstance.ephemeral() as instance:
            instance.add_dynamic_partitions(deliveries_of("heritage").name, ["2012"])
            job = definitions.resolve_job_def(job_name("heritage"))
            tags = job.get_tags_for_partition_key("2012", selected_asset_keys=None)
        assert tags["deid/store"] == "heritage/2012"


@pytest.mark.parametrize("policy", POLICIES)
def test_every_step_runs_in_the_process_of_its_run(definitions, policy):
    """A step process for each tiny asset costs seconds."""
    assert definitions.resolve_job_def(job_name(policy)).executor_def is dg.in_process_executor


def test_the_executor_of_a_project_is_its_own(definitions):
    assert definitions.executor is None


def test_definitions_of_one_policy_can_be_merged_into_another_project(tmp_path):
    """Which has an executor, an IO manager and a resource of its own, and keeps them."""
    ours = build_definitions({"heritage": policy_by_name("heritage")}, Home(tmp_path))

    @dg.asset
    def theirs() -> None:
        pass

    resources = {"io_manager": dg.FilesystemIOManager(), "policies": "of theirs"}
    project = dg.Definitions(
        assets=[theirs], jobs=[dg.define_asset_job("theirs")], executor=dg.multiprocess_executor, resources=resources
    )
    merged = dg.Definitions.merge(ours, project)
    assert set(merged.resolve_asset_graph().get_all_asset_keys()) == keys("heritage") | {dg.AssetKey("theirs")}
    assert merged.executor is dg.multiprocess_executor
    assert {name for name in merged.resources if name not in resources} == {"deid", "deid_store"}
    assert merged.resolve_job_def(job_name("heritage")).executor_def is dg.in_process_executor
    assert merged.resolve_job_def("theirs").executor_def is dg.multiprocess_executor


def test_building_definitions_makes_no_folder(tmp_path):
    build_definitions({}, Home(tmp_path / "deid"))
    assert not (tmp_path / "deid").exists()


def test_policies_of_all_kinds_load_together(tmp_path):
    """A home in which all of them were run has one code location."""
    cohort = policy_from(cohort_values(owners=["team:privacy"]))
    both = {"flat_table": policy_from(FLAT), "cohort": cohort, "claims_dates": POLICIES["claims_dates"]}
    definitions = build_definitions(both, Home(tmp_path))
    dg.Definitions.validate_loadable(definitions)
    keys_of_releases = {dg.AssetKey([name, "release"]) for name in both}
    assert keys_of_releases <= definitions.resolve_asset_graph().get_all_asset_keys()
