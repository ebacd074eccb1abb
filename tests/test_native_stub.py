"""The stub of the kernels is what nanobind writes from the module: the type checker sees what is really there."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

from sharpdnf import _native

stubgen = pytest.importorskip("nanobind.stubgen")
STUB = Path(__file__).parents[1] / "src" / "sharpdnf" / "_native.pyi"


def declarations(stub: str) -> str:
    """The stub without its layout and comments, which may differ from one version of nanobind to the next."""
    return ast.dump(ast.parse(stub), indent=1)


def test_the_stub_is_what_the_module_says_of_itself() -> None:
    generator = stubgen.StubGen(_native)
    generator.put(_native)
    assert declarations(STUB.read_text()) == declarations(generator.get()), "run `make native` and commit the stub"


def test_no_kernel_returns_a_bare_tuple_list_or_dict() -> None:
    """These say nothing to the type checker: a result with several parts is a struct, or a tuple with types."""
    bare = [
        f"{node.name}: {ast.unparse(node.returns)}"
        for node in ast.walk(ast.parse(STUB.read_text()))
        if isinstance(node, ast.FunctionDef)
        and isinstance(node.returns, ast.Name)
        and node.returns.id in {"tuple", "list", "dict", "object"}
    ]
    assert not bare


def test_fields_are_read_only_and_arrays_outlive_the_result() -> None:
    def found() -> _native.PivotCounts:
        arrays = np.array([0, 2]), np.array([0, 2], np.int32), np.full(2, 0.5)
        return _native.count_pivots(*arrays, seed=1, first=0, blocks=2, coverage=False, seconds=10.0)

    result = found()
    with pytest.raises(AttributeError):
        result.worlds = 3  # type: ignore[misc]
    up, again = result.up, found().up
    kept = up.tolist()
    del result
    assert up.tolist() == kept == again.tolist()
