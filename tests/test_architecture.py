"""Imports point one way, public names are what they are, and nothing below the command line prints."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from file_list import ARCHITECTURE, folders, purpose, rewritten

import sharpdnf

PACKAGE = Path(sharpdnf.__file__).parent
# A module may import those of its own layer and of the layers before it. Folders are named as one.
LAYERS = [
    "errors streams notebook",
    "files bulk",
    "drawing",
    "estimate",
    "_native",
    "dnf algebra",
    "privileged",
    "circuit builder relax",
    "compiled circuit_compile circuit_formats nnf formats simplify generate learn",
    "engines",
    "analysis circuit_analysis sensitivity shapley torch",
    "fronts sql",
    "paper serve",
    "cli",
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names.split()}
EVERYTHING = len(LAYERS) - 1  # ``import sharpdnf`` may reach any module, so only the last layer may say it


def imported_modules(tree: ast.AST) -> list[tuple[str, int]]:
    """(module or folder of the package, its layer) of every import, those inside functions included."""
    out = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "an import says where it goes from the top: from sharpdnf.x import y"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for name in names:
            top, *rest = name.split(".")
            if top == "sharpdnf":
                out.append((name, LEVEL[rest[0]] if rest else EVERYTHING))
    return out


def layer_of(path: Path) -> int:
    return LEVEL[path.relative_to(PACKAGE).with_suffix("").parts[0]]


def test_imports_point_one_way() -> None:
    for path in PACKAGE.rglob("*.py"):
        if path == PACKAGE / "__init__.py":  # the public names, each imported at first use
            continue
        for name, level in imported_modules(ast.parse(path.read_text())):
            assert level <= layer_of(path), f"{path.relative_to(PACKAGE)} imports {name}"


@pytest.mark.parametrize(
    "line",
    [
        "from sharpdnf.engines import count",
        "from sharpdnf import engines",
        "import sharpdnf.engines.front",
        "import sharpdnf",
        "def f():\n    from sharpdnf.engines.front import count",
        "if TYPE_CHECKING:\n    from sharpdnf.engines import front",
    ],
)
def test_an_import_that_points_back_is_found(line: str) -> None:
    (found,) = imported_modules(ast.parse(line))
    assert found[1] > LEVEL["dnf"]


def test_every_module_has_a_layer() -> None:
    modules = {path.relative_to(PACKAGE).with_suffix("").parts[0] for path in PACKAGE.rglob("*.py")}
    assert modules - {"__init__"} <= set(LEVEL)


def sql_imports(path: Path) -> list[str]:
    """The modules of ``sharpdnf.sql`` that a file imports anywhere, without that prefix."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
        if module.startswith("sharpdnf.sql."):
            found.append(module.removeprefix("sharpdnf.sql."))
    return found


SQL_ROOMS = ["refusal", "backends", "parse", "bind", "emit", "rewrite"]
"""In the order of the imports: emitting knows the tree, and the rewriting asks the database about what it emits."""


def test_the_rooms_of_sql_import_one_way() -> None:
    for level, room in enumerate(SQL_ROOMS[1:], start=1):
        for path in (PACKAGE / "sql" / room).glob("*.py"):
            others = {module.split(".")[0] for module in sql_imports(path)}
            assert others <= set(SQL_ROOMS[: level + 1]), f"{path.relative_to(PACKAGE)} imports {sorted(others)}"


def test_no_module_asks_which_database_it_talks_to() -> None:
    for path in (PACKAGE / "sql").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Compare):
                constants = {c.value for c in [node.left, *node.comparators] if isinstance(c, ast.Constant)}
                about_dialect = "dialect" in ast.unparse(node)
                assert not (about_dialect and constants & {"duckdb", "sqlite", "postgres"}), path


def test_only_the_command_line_prints() -> None:
    for path in PACKAGE.rglob("*.py"):
        if path.relative_to(PACKAGE).parts[0] != "cli":
            calls = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Call)]
            printing = [n for n in calls if isinstance(n.func, ast.Name) and n.func.id == "print"]
            assert not printing, path


def class_homes(package: Path) -> dict[str, list[str]]:
    """The modules that define a class of each name at their top level, the names that begin with _ included."""
    homes: dict[str, list[str]] = {}
    for path in sorted(package.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(str(path.relative_to(package)))
    return homes


def test_a_class_name_means_one_thing_in_the_whole_package() -> None:
    homes = class_homes(PACKAGE)
    assert len(homes) > 100
    assert not {name: modules for name, modules in homes.items() if len(modules) > 1}


def test_a_class_name_that_means_two_things_is_found(tmp_path: Path) -> None:
    for room in ("fronts", "learn"):
        (tmp_path / room).mkdir()
        (tmp_path / room / "model.py").write_text("class Network: ...\n")
    twice = {name: modules for name, modules in class_homes(tmp_path).items() if len(modules) > 1}
    assert twice == {"Network": ["fronts/model.py", "learn/model.py"]}


def test_the_architecture_names_every_file_and_no_other() -> None:
    text = ARCHITECTURE.read_text(encoding="utf-8")
    assert text == rewritten(text), "the list of files is not what the files say: python tests/file_list.py"


def test_every_file_says_what_it_is_for() -> None:
    root = ARCHITECTURE.parent
    silent = [path for _, files in folders(root) for path in files if not purpose(path)]
    assert not silent, "the first sentence of these files is the line about them in ARCHITECTURE.md"


def test_a_file_that_the_architecture_leaves_out_is_found(tmp_path: Path) -> None:
    (tmp_path / "src/sharpdnf/sql").mkdir(parents=True)
    (tmp_path / "native/kernels").mkdir(parents=True)
    (tmp_path / "src/sharpdnf/sql/way.py").write_text('"""A way.\n\nMore of it."""\n')
    (tmp_path / "native/kernels/sum.hpp").write_text("// A sum\n// of rows. It is fast.\n//\n// Why.\n#pragma once\n")
    before = rewritten("# Architecture\n", tmp_path)
    assert "### src/sharpdnf/sql\n\n- `way.py`: A way.\n" in before
    assert "### native/kernels\n\n- `sum.hpp`: A sum of rows.\n" in before
    assert rewritten(before, tmp_path) == before
    (tmp_path / "src/sharpdnf/sql/way.py").rename(tmp_path / "src/sharpdnf/sql/path.py")
    assert rewritten(before, tmp_path) != before


def test_the_text_of_the_architecture_names_only_files_that_exist() -> None:
    names = {path.name for _, files in folders(ARCHITECTURE.parent) for path in files}
    text = ARCHITECTURE.read_text(encoding="utf-8")
    named = {Path(name).name for name in re.findall(r"`([\w/]+\.(?:py|hpp|cpp))`", text)}
    assert len(named) > 200
    assert named - names <= {"test_architecture.py", "file_list.py"}


MIRRORS = [("cli", ""), ("sql/bind", "sql/rewrite")]
"""Rooms in which the same name is the same subject: a command shows its room, and two passes treat one construct."""


def module_homes(package: Path) -> dict[str, list[str]]:
    """The rooms that hold a module of each name, but those of a mirror only once."""
    homes: dict[str, list[str]] = {}
    for path in sorted(package.rglob("*.py")):
        if path.stem not in ("__init__", "__main__"):
            homes.setdefault(path.stem, []).append(path.parent.relative_to(package).as_posix())
    for rooms in homes.values():
        for shown, subject in MIRRORS:
            if shown in rooms and any(f.startswith(subject) for f in rooms if f != shown):
                rooms.remove(shown)
    return homes


def test_a_module_name_means_one_thing_in_the_whole_package() -> None:
    homes = module_homes(PACKAGE)
    assert len(homes) > 100
    assert not {name: rooms for name, rooms in homes.items() if len(rooms) > 1}


def test_a_module_name_that_means_two_things_is_found(tmp_path: Path) -> None:
    for room in ("fronts", "sql", "cli", "sql/bind", "sql/rewrite"):
        (tmp_path / room).mkdir()
    for module in ("fronts/x", "sql/x", "sql/bind/query", "sql/rewrite/query", "cli/sql", "sql/rewrite/sql"):
        (tmp_path / f"{module}.py").write_text("")
    twice = {name: rooms for name, rooms in module_homes(tmp_path).items() if len(rooms) > 1}
    assert twice == {"x": ["fronts", "sql"]}


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
