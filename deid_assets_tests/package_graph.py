"""The packages of the product and which imports which, as Mermaid: python -m deid_assets_tests.package_graph."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import deid_assets

PACKAGE = Path(deid_assets.__file__).parent


def packages() -> tuple[str, ...]:
    """The folders of the package that hold modules."""
    return tuple(sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py")))


def imports() -> dict[str, set[str]]:
    """Which package imports which, in any of its modules, also inside of functions."""
    names = packages()
    found: dict[str, set[str]] = {name: set() for name in names}
    for name in names:
        for module in (PACKAGE / name).rglob("*.py"):
            found[name] |= {other for other in _imported(module) if other in found and other != name}
    return found


def _imported(module: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("deid_assets."):
            yield node.module.split(".")[1]
        elif isinstance(node, ast.ImportFrom) and node.module == "deid_assets":
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.Import):
            yield from (name.name.split(".")[1] for name in node.names if name.name.startswith("deid_assets."))


def reduced(edges: dict[str, set[str]]) -> dict[str, set[str]]:
    """The same without direct imports that a longer path shows."""

    def below(name: str) -> set[str]:
        return edges[name].union(*(below(other) for other in edges[name]))

    return {
        name: {other for other in others if not any(other in below(via) for via in others)} for name, others in edges.items()
    }


def drawn() -> str:
    """The graph as Mermaid."""
    edges = [f"    {name} --> {other}" for name, others in sorted(reduced(imports()).items()) for other in sorted(others)]
    return "\n".join(["flowchart TD", *edges])


if __name__ == "__main__":
    sys.stdout.write(f"{drawn()}\n")
