"""When Dagster makes a release by itself."""

from typing import Any

import dagster as dg


def on_new_delivery() -> dg.AutomationCondition[Any]:
    """The condition of every asset of a release that is made when its upstream assets were made and their checks passed.

    `eager()` alone requests what depends on a partition whose check failed. An asset before it that is requested at the same
    time has not been checked yet: both are made in one run, in which its blocking checks stop what comes after. Without
    that, each tick would request one layer of the release, in a run of its own.

    `eager()` also requests a partition that is new, and a run started by hand that failed leaves it new: what was refused
    would be refused again. After a failure only upstream assets that were made since are a reason to try again. Dagster tells
    conditions when an asset was made, but not when a run started or failed: what was made between the same two evaluations
    counts as made after it. The release is tried once more, and no delivery is lost.
    """
    condition = dg.AutomationCondition
    passed = condition.all_checks_match(condition.check_passed(), blocking_only=True).with_label("all_blocking_checks_passed")
    in_one_run = condition.will_be_requested()
    untried = ~condition.execution_failed() | condition.any_deps_updated().since_last_handled()
    checked = condition.all_deps_match(passed | in_one_run).with_label("all_deps_checked_or_in_the_same_run")
    return condition.eager() & untried.with_label("not_failed_or_deps_updated") & checked
