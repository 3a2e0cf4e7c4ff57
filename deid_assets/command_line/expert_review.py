"""`deid expert-review`: let experts guess diagnoses from released records, and score their answers."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from deid_assets.command_line.options import FILE, deliveries, policies
from deid_assets.errors import how_many
from deid_assets.store.home import Home

if TYPE_CHECKING:
    from deid_assets.methods.inference.expert_review import Score


@click.group("expert-review")
def expert_review() -> None:
    """Let experts guess diagnoses from released records, and score their answers.

    The files of an export are restricted: give each reviewer their own folder only, over a channel that nobody else reads,
    and have it deleted afterwards.
    """


@expert_review.command("export")
@click.option("--policy", required=True, shell_complete=policies, help="The policy's name.")
@click.option(
    "--delivery",
    required=True,
    shell_complete=deliveries,
    help="Key of a delivery whose candidate has been made; see `deid deliveries`.",
)
@click.option("--reviewers", type=click.IntRange(1, 99), required=True, help="Number of reviewers; each gets 20 members.")
@click.option("--output", type=FILE, required=True, help="Folder for the reviewers' folders.")
def expert_review_export(policy: str, delivery: str, reviewers: int, output: Path) -> None:
    """Write profiles of 20 released members and an answer sheet for each reviewer.

    Profiles hold what would be released, without diagnoses and what is made of them. The answers stay in the restricted store.
    """
    from deid_assets.command_line.expert_review_files import export

    made = export(Home.here(), policy, delivery, reviewers, output)
    click.echo(f"Expert review {made.name}: {how_many(made.reviewers, 'folder')} in {made.folder} (restricted).")
    click.echo(f"The key stays in {made.key}.")
    click.echo("Score the sheets that come back with `deid expert-review score SHEET...`.")


@expert_review.command("score")
@click.argument("sheets", nargs=-1, required=True, metavar="SHEET...", type=FILE)
@click.option("--json", "as_json", is_flag=True, help="Print the scores as a JSON document.")
def expert_review_score(sheets: tuple[Path, ...], as_json: bool) -> None:
    """Compare answer sheets of one export with its key.

    Prints how often condition group, chapter and three-digit code were right, each with its exact 95 % interval, and how often
    they would be if the most frequent answer were always named. What was not answered counts as not right.
    """
    from deid_assets.command_line.expert_review_files import score

    review, found, of_reviewers = score(Home.here(), sheets)
    if as_json:
        told = {"review": review, "scores": [asdict(one) for one in found], "reviewers": len(of_reviewers) // len(found)}
        click.echo(json.dumps(told))
        return
    click.echo(
        f"Expert review {review}: {how_many(len(of_reviewers) // len(found), 'reviewer')}, "
        f"{how_many(found[0].profiles, 'profile')}."
    )
    for one in found:
        click.echo(_line(one, [other for other in of_reviewers if other.level == one.level]))
    click.echo(
        "Intervals hold for reviewers like these, if profiles are guessed independently. Their range tells how much reviewers "
        "differ."
    )


def _line(one: "Score", of_reviewers: list["Score"]) -> str:
    shares = [other.right / other.profiles for other in of_reviewers]
    what = {"condition_group": "condition group", "chapter": "chapter", "code": "three-digit code"}[one.level]
    return (
        f"{what:<17} right {one.right} of {one.profiles} ({one.right / one.profiles:.1%}, interval {one.low:.1%} to "
        f"{one.high:.1%}; reviewers {min(shares):.0%} to {max(shares):.0%}), answered {one.answered}, most frequent answer "
        f"{one.most_frequent / one.profiles:.1%}"
    )
