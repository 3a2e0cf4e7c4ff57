"""Forty defects that a change of the inside could bring in."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Defect:
    """A line that is changed for the worse.

    Attributes
    ----------
    name
        What is wrong then.
    file
        Path in the package.
    old, new
        What is replaced in it, once, and by what.
    tests
        The tests that should notice, as pytest names them, below the folder of the tests.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


KERNEL = ("methods/kernel", "methods/adversary")
DEFECTS = (
    Defect(
        "a member who lacks their own knowledge is not found and is flagged for it",
        "methods/kernel/drawn_blocks.py",
        "found[small] += self.lost_by(batch, small, histories)",
        "pass",
        KERNEL,
    ),
    Defect(
        "classes of exactly k count as too small",
        "methods/kernel/node_computation.py",
        "np.logical_or.reduce(~exempt & (sizes < asked.limit))",
        "np.logical_or.reduce(~exempt & (sizes <= asked.limit))",
        KERNEL,
    ),
    Defect(
        "exempt draws count as at high risk",
        "methods/kernel/node_computation.py",
        "np.logical_or.reduce(~exempt & (sizes < asked.limit))",
        "np.logical_or.reduce(exempt | (sizes < asked.limit))",
        KERNEL,
    ),
    Defect(
        "of several scenarios the last one decides",
        "methods/kernel/node_computation.py",
        "np.logical_or.reduce(~exempt & (sizes < asked.limit))",
        "(~exempt & (sizes < asked.limit))[-1]",
        KERNEL,
    ),
    Defect(
        "somebody who knows everything may find as many as they can",
        "methods/lattice/choice.py",
        "if known.hold(limit, demands.confidence, demands.aim):",
        "if known.hold(1, demands.confidence, demands.aim):",
        ("methods/lattice",),
    ),
    Defect(
        "the literal reading uses the exemption of the other",
        "methods/kernel/node_computation.py",
        'known if exemption == "literal" else',
        'known if exemption == "never" else',
        KERNEL,
    ),
    Defect(
        "the adversary is allowed the floor of what is asked for",
        "methods/adversary/adversary_power.py",
        "else np.floor(share + step)",
        "else np.floor(share)",
        KERNEL,
    ),
    Defect(
        "members without variation are known least instead of best",
        "methods/adversary/adversary_power.py",
        "power = np.full(claims.shape, power_max, dtype=np.int8)",
        "power = np.full(claims.shape, 1, dtype=np.int8)",
        KERNEL,
    ),
    Defect(
        "the smaller of two readings decides",
        "methods/adversary/two_readings.py",
        "return max(self.fixed.share, self.literal.share)",
        "return min(self.fixed.share, self.literal.share)",
        ("methods/adversary", "methods/lattice"),
    ),
    Defect(
        "the smaller of two bounds decides",
        "methods/adversary/two_readings.py",
        "return max(clopper_pearson_upper_bound(",
        "return min(clopper_pearson_upper_bound(",
        ("methods/adversary", "methods/lattice"),
    ),
    Defect(
        "an error of a bound is not shared among the tries",
        "methods/statistics/confidence.py",
        "    if number < 1:",
        "    return confidence\n    if number < 1:",
        ("methods/statistics", "release/test_evidence.py", "release/test_tries.py"),
    ),
    Defect(
        "an identifier with one pattern too few is published",
        "methods/candidate/provider_suppression.py",
        ">= {_checked(needed)} THEN",
        ">= {_checked(needed) - 1} THEN",
        ("methods/candidate",),
    ),
    Defect(
        "suppressed members are published",
        "methods/candidate/released_tables.py",
        "{profiles.sql} WHERE released AND member_id NOT IN",
        "{profiles.sql} WHERE released OR member_id NOT IN",
        ("methods/candidate", "assessments/test_attribute_leaks.py"),
    ),
    Defect(
        "pay delays are cut one day too late",
        "methods/preparation/grouping.py",
        "CASE WHEN claims.pay_delay > ? THEN ?",
        "CASE WHEN claims.pay_delay > ? + 1 THEN ?",
        ("methods/preparation",),
    ),
    Defect(
        "a Charlson index of codes that cannot be read is 0",
        "methods/preparation/grouping.py",
        "CASE WHEN claims.unreadable_diagnoses = 0 AND {indexed} THEN coalesce(charlson.charlson, '0') END",
        "CASE WHEN {indexed} THEN coalesce(charlson.charlson, '0') END",
        ("methods/preparation",),
    ),
    Defect(
        "days in hospital of the second year are not top-coded",
        "methods/preparation/grouping.py",
        "CASE WHEN members.days_in_hospital_y2 > $1 THEN $1",
        "CASE WHEN members.days_in_hospital_y2 > $1 * 100 THEN $1",
        ("methods/preparation",),
    ),
    Defect(
        "stays of no day stay what they are",
        "methods/preparation/grouping.py",
        "CASE WHEN claims.length_of_stay = 0 THEN 1",
        "CASE WHEN claims.length_of_stay = 0 THEN 0",
        ("methods/preparation",),
    ),
    Defect(
        "a list of people who opted out removes nobody",
        "methods/preparation/eligibility.py",
        "WHERE member_id NOT IN (SELECT member_id FROM {removed.sql})",
        "WHERE true",
        ("methods/preparation",),
    ),
    Defect(
        "claims of the newborn count",
        "methods/preparation/eligibility.py",
        'WHERE {" AND ".join(rules)}',
        'WHERE {" OR ".join(rules)}',
        ("methods/preparation",),
    ),
    Defect(
        "a match beyond the file counts as none",
        "methods/attacks/marketer_risk.py",
        "f - population + np.minimum(population, 1)",
        "0",
        ("methods/attacks",),
    ),
    Defect(
        "a class counts as large whatever its estimated size",
        "methods/statistics/population_class_size.py",
        "estimated_class_size(sizes, alpha, estimator) >= F - slack",
        "estimated_class_size(sizes, alpha, estimator) >= 0",
        ("methods/statistics",),
    ),
    Defect(
        "everybody is taken for a member of the release",
        "methods/attacks/neighbor_attack.py",
        "(membership < alpha) & picked_target",
        "(membership <= 1) & picked_target",
        ("methods/attacks",),
    ),
    Defect(
        "a homogeneous class is one in which nobody else has the value",
        "methods/disclosure/attribute_disclosure.py",
        "(holders < whole_sizes.sum())[rank]",
        "(holders < 0)[rank]",
        ("methods/disclosure",),
    ),
    Defect(
        "newcomers hide among those who are missing",
        "methods/disclosure/membership_changes.py",
        "np.where(there == NOT_DELIVERED, new, lacking) < k",
        "lacking < k",
        ("methods/disclosure", "release/test_membership_changes.py"),
    ),
    Defect(
        "members of classes that nobody left are counted",
        "methods/disclosure/membership_changes.py",
        "return (there < 0) & few & (like >= k)",
        "return few & (like >= k)",
        ("methods/disclosure", "release/test_membership_changes.py"),
    ),
    Defect(
        "linked classes of exactly k refuse",
        "methods/releases/linked_records.py",
        "found[hiding] = sizes[of_class.ravel()] < k",
        "found[hiding] = sizes[of_class.ravel()] <= k",
        ("methods/releases", "assessments/test_record_cross_release_risk.py"),
    ),
    Defect(
        "nobody whose values changed stands out",
        "methods/releases/linked_records.py",
        "return released & changed &",
        "return released & ~released & changed &",
        ("methods/releases", "assessments/test_record_cross_release_risk.py"),
    ),
    Defect(
        "records of a flat table may be one fewer than k",
        "methods/flat/classes.py",
        "self.released[self.population < k]",
        "self.released[self.population < k - 1]",
        ("methods/flat",),
    ),
    Defect(
        "the flat search stops at the first node that passes",
        "methods/flat/search.py",
        "better = passes and (self._best is None or rank < self._best)",
        "better = passes and self._best is None",
        ("methods/flat",),
    ),
    Defect(
        "more may be suppressed than a policy allows",
        "methods/flat/search.py",
        "passes = below <= self._allowed",
        "passes = below <= self._allowed + 1",
        ("methods/flat",),
    ),
    Defect(
        "a cohort may be twice as risky as Safe Harbor",
        "methods/demographics/risk.py",
        "np.asarray(reference) * (1 + ROUND_OFF)",
        "np.asarray(reference) * 2",
        ("methods/demographics",),
    ),
    Defect(
        "narrow intervals of counts pass",
        "methods/counts/audit.py",
        "is_narrow = width < rule.width(contribution)",
        "is_narrow = width < 0",
        ("methods/counts",),
    ),
    Defect(
        "counts that sums give nearly are no finding",
        "methods/counts/audit.py",
        "(is_small & (outer_width < rule.width(contribution)), CellKnowledge.NEARLY_EXPOSED)",
        "(is_small & (outer_width < 0), CellKnowledge.NEARLY_EXPOSED)",
        ("methods/counts",),
    ),
    Defect(
        "a number outside its limit passes",
        "assessments/evidence.py",
        "return compared <= threshold if self.comparison",
        "return compared >= threshold if self.comparison",
        ("release/test_evidence.py", "assessments/test_gates.py"),
    ),
    Defect(
        "evidence with another threshold than the policy's is accepted",
        "assessments/evidence.py",
        "measurement.threshold != requirement.threshold",
        "measurement.threshold is None",
        ("release/test_evidence.py",),
    ),
    Defect(
        "a bound of a laxer confidence is accepted",
        "assessments/evidence.py",
        "elif not _is_as_sure(measurement, requirement, context):",
        "elif False:",
        ("release/test_evidence.py", "release/test_tries.py"),
    ),
    Defect(
        "a number about people is shown without noise",
        "assessments/evidence.py",
        "return EXPOSURES.get(unit, Exposure.PEOPLE)",
        "return EXPOSURES.get(unit, Exposure.NOBODY)",
        ("release/test_manifest.py", "release/test_counts_of_tables.py", "assessments/test_gates.py"),
    ),
    Defect(
        "chances are published to the last digit",
        "release/manifest/public_numbers.py",
        'return told | {name: two_digits(told[name]) for name in ("value", "bound")}',
        "return told",
        ("release/test_manifest.py",),
    ),
    Defect(
        "a file that was changed after it was judged is published",
        "release/gate/proof.py",
        "if digest != table.digests[form]:",
        "if False:",
        ("release/test_proof.py",),
    ),
    Defect(
        "two forms of a table may differ",
        "release/gate/proof.py",
        "if not found and not same_rows(csv, parquet):",
        "if False:",
        ("release/test_proof.py",),
    ),
    Defect(
        "rows that are wrong under their contract are published",
        "release/gate/judgement.py",
        'found.append(Refusal("broken_contract", name,',
        'found[:0].append(Refusal("broken_contract", name,',
        ("release/test_judgement.py",),
    ),
    Defect(
        "identifiers that had to be blanked are published",
        "release/gate/judgement.py",
        'found.append(Refusal("unsuppressed_identifier",',
        'found[:0].append(Refusal("unsuppressed_identifier",',
        ("release/test_judgement.py",),
    ),
    Defect(
        "pseudonyms of other people are published",
        "release/gate/judgement.py",
        'found.append(Refusal("wrong_pseudonym",',
        'found[:0].append(Refusal("wrong_pseudonym",',
        ("release/test_judgement.py",),
    ),
)
