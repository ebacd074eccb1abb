"""Imports point one way, public names are what they are, and nothing below the command line prints."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import sharpdnf

PACKAGE = Path(sharpdnf.__file__).parent
# A module may import those of its own layer and of the layers before it.
LAYERS = [
    "errors streams",
    "files",
    "estimate",
    "_native",
    "dnf",
    "circuit builder relax",
    "compiled circuit_compile circuit_formats nnf formats simplify generate learn",
    "engines",
    "analysis circuit_analysis sensitivity",
    "fronts sql",
    "report reproduce show",
    "cli cli_faulttree cli_learn cli_reproduce cli_sql",
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names.split()}


def imports_at_load(path: Path) -> list[str]:
    """Modules of the package that are imported when ``path`` is (imports inside functions are lazy: allowed)."""
    out = []
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sharpdnf"):
            tail = (node.module or "").split(".")[1:2]
            out += tail or [alias.name for alias in node.names]
    return out


def test_imports_point_one_way() -> None:
    for path in PACKAGE.rglob("*.py"):
        own = path.relative_to(PACKAGE).with_suffix("").parts[0]
        if own == "__init__":
            continue
        for other in imports_at_load(path):
            assert LEVEL[other] <= LEVEL[own], f"{path.relative_to(PACKAGE)} imports {other}"


def test_only_the_command_line_prints() -> None:
    for path in PACKAGE.rglob("*.py"):
        if not path.name.startswith("cli"):
            calls = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Call)]
            printing = [n for n in calls if isinstance(n.func, ast.Name) and n.func.id == "print"]
            assert not printing, path


def test_public_names_are_not_modules() -> None:
    """Importing a module sets the package's attribute of that name, whatever was there."""
    assert not set(sharpdnf.__all__) & {path.stem for path in PACKAGE.glob("*.py")}


def test_public_names_exist() -> None:
    assert set(sharpdnf.__all__) == set(sharpdnf._HOME)
    for name in sharpdnf.__all__:
        assert getattr(sharpdnf, name) is not None


def test_counting_needs_no_tensor_library_or_database() -> None:
    code = "import sys, sharpdnf; sharpdnf.count(sharpdnf.DNF.from_clauses([[1, 2]])); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"torch", "duckdb", "sqlglot", "pyarrow", "scipy", "pandas"} & set(loaded)
    code = "import sys, sharpdnf; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "numpy" not in loaded
