"""anjana and pycanon on a flat table, for `flat`: run as a script, by an interpreter that has them.

They pin versions of pandas and NumPy with which deid_assets does not run, so they live in an environment of their own.
The task comes as JSON on the standard input, and the answer leaves as JSON on the standard output:

    {"columns": [[class of each record] ..], "levels": [[[class of each value] of each level] ..],
     "k": 5, "shares": [.04, 0], "nodes": [[level of each column] ..]}
    {"anjana": {"version": "1.2.3", "found": [{"seconds": .., "node": [..], "suppressed": ..} for each share]},
     "pycanon": {"version": "1.3.5", "seconds": [.. for each node]}}

What is not installed is left out of the answer. Labels tell their level ("2:17"), so that a result tells its node.
"""

import contextlib
import importlib.metadata
import json
import sys
import time


def labelled(column, levels, level):
    """The labels of a column at a level."""
    return [f"{level}:{levels[level][code]}" for code in column]


def with_anjana(task):
    """Its own search for k-anonymity, at each share of records that may be suppressed."""
    import pandas as pd
    from anjana.anonymity import k_anonymity

    names = [f"c{i}" for i in range(len(task["columns"]))]
    found = []
    for share in task["shares"]:
        # Made anew each time: it changes the hierarchies that it is given.
        data = pd.DataFrame(
            {n: labelled(c, levels, 0) for n, c, levels in zip(names, task["columns"], task["levels"], strict=True)}
        )
        hierarchies = {
            name: {level: [f"{level}:{number}" for number in classes] for level, classes in enumerate(levels)}
            for name, levels in zip(names, task["levels"], strict=True)
        }
        started = time.process_time()
        released = k_anonymity(data, [], names, task["k"], 100 * share, hierarchies)
        seconds = time.process_time() - started
        node = [int(released[name].iloc[0].split(":")[0]) for name in names] if len(released) else None
        found.append({"seconds": seconds, "node": node, "suppressed": len(data) - len(released)})
    return found


def with_pycanon(task):
    """It measures tables and does not search: seconds to tell the k of each node's table."""
    import pandas as pd
    from pycanon import anonymity

    names = [f"c{i}" for i in range(len(task["columns"]))]
    spent = []
    for node in task["nodes"]:
        columns = zip(names, task["columns"], task["levels"], node, strict=True)
        data = pd.DataFrame({name: labelled(column, levels, level) for name, column, levels, level in columns})
        started = time.process_time()
        anonymity.k_anonymity(data, names)
        spent.append(time.process_time() - started)
    return spent


def main():
    """Answer the task with what is installed."""
    task, answer = json.load(sys.stdin), {}
    with contextlib.redirect_stdout(sys.stderr):
        for name, key, work in (("anjana", "found", with_anjana), ("pycanon", "seconds", with_pycanon)):
            try:
                version = importlib.metadata.version(name)
            except importlib.metadata.PackageNotFoundError:
                continue
            answer[name] = {"version": version, key: work(task)}
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
