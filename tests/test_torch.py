"""Probabilities as a layer: values and gradients against enumeration, exact and drawn."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
import torch
from circuit_oracle import circuit_fraction, random_circuit
from oracle import enumerate_influence, enumerate_prob, random_dnf

from sharpdnf import DNF, Circuit, NotMetWarning
from sharpdnf.errors import LimitError
from sharpdnf.torch import Probability, models_needed

pytestmark = pytest.mark.native


def slopes(module: Probability, probs: torch.Tensor, weights: torch.Tensor | None = None) -> torch.Tensor:
    rows = probs.clone().requires_grad_()
    out = module(rows)
    out.backward(torch.ones_like(out) if weights is None else weights)
    assert rows.grad is not None
    return rows.grad


def circuit_slopes(circuit: Circuit, output: int = 0) -> np.ndarray:
    """d P / d p by enumeration: P is linear in every probability."""
    out = np.empty(circuit.num_vars)
    for v in range(circuit.num_vars):
        ends = []
        for value in (1.0, 0.0):
            prob = np.array(circuit.prob)
            prob[v] = value
            ends.append(circuit_fraction(circuit.with_prob(prob), output))
        out[v] = float(ends[0] - ends[1])
    return out


def test_values_and_gradients_of_dnfs_are_those_of_enumeration() -> None:
    rng = np.random.default_rng(1)
    for _ in range(12):
        formulas = [random_dnf(rng, int(rng.integers(3, 7)), 6, (1, 3)) for _ in range(3)]
        n = max(f.num_vars for f in formulas)
        rows = np.where(rng.random((5, n)) < 0.2, rng.integers(0, 2, (5, n)), rng.random((5, n)))
        weights = rng.normal(size=(5, 3))
        module = Probability(formulas, log=False)
        assert module.exact == (True, True, True)
        found = module(torch.from_numpy(rows)).numpy()
        grad = slopes(module, torch.from_numpy(rows), torch.from_numpy(weights)).numpy()
        expected = np.zeros_like(rows)
        for r, row in enumerate(rows):
            for o, formula in enumerate(formulas):
                here = formula.with_prob(row[: formula.num_vars])
                assert found[r, o] == pytest.approx(enumerate_prob(here), abs=1e-12)
                expected[r, : formula.num_vars] += weights[r, o] * enumerate_influence(here)
        assert grad == pytest.approx(expected, abs=1e-12)


def test_values_and_gradients_of_circuits_are_those_of_enumeration() -> None:
    rng = np.random.default_rng(2)
    for _ in range(30):
        circuit = random_circuit(rng, outputs=2)
        rows = torch.from_numpy(np.array(circuit.prob)[None, :])
        module = Probability(circuit)
        log_prob = module(rows).numpy()[0]
        for output in range(2):
            p = float(circuit_fraction(circuit, output))
            assert math.exp(log_prob[output]) == pytest.approx(p, abs=1e-12)
            only = torch.zeros(1, 2, dtype=torch.float64)
            only[0, output] = 1.0
            grad = slopes(module, rows, only).numpy()[0]
            assert grad == pytest.approx(circuit_slopes(circuit, output) / p if p else 0.0 * grad, abs=1e-9)


def test_gradcheck() -> None:
    rng = np.random.default_rng(3)
    formulas = [random_dnf(rng, int(rng.integers(3, 7)), 6, (1, 3)) for _ in range(4)]
    n = max(f.num_vars for f in formulas)
    circuit = Circuit.parse("atleast(2, a, b, ~c)")
    for module in (Probability(formulas), Probability(formulas, log=False), Probability(circuit)):
        probs = torch.rand(3, module.num_vars, dtype=torch.float64) * 0.8 + 0.1
        assert torch.autograd.gradcheck(module, (probs.requires_grad_(),))
    assert n == Probability(formulas).num_vars


@pytest.mark.parametrize("outputs", [1, 2])
def test_second_derivatives_are_an_error(outputs: int) -> None:
    rows = torch.full((1, 2), 0.5, requires_grad=True)
    module = Probability([DNF.from_clauses([[1, 2]])] * outputs)
    loss = module(rows).sum() + (rows**2).sum()  # the square has second derivatives, which must not hide that we do not
    (first,) = torch.autograd.grad(loss, rows, create_graph=True)
    assert torch.allclose(first, outputs * 2.0 + 2.0 * rows)
    with pytest.raises(RuntimeError, match="no second derivatives"):
        first.sum().backward()


def test_types_shapes_and_strides() -> None:
    dnf = DNF.from_clauses([[1, 2], [-1, 3]])
    module = Probability(dnf)
    probs = torch.tensor([0.3, 0.5, 0.9])
    assert module(probs).shape == (1,) and module(probs).dtype == torch.float32
    assert slopes(module, probs).dtype == torch.float32
    assert module(probs.expand(4, 3)).shape == (4, 1)
    assert module(probs.double().expand(2, 4, 3)).shape == (2, 4, 1)
    assert module(torch.rand(3, 5).T).shape == (5, 1)
    assert module(torch.zeros(0, 3)).shape == (0, 1)
    assert float(module(probs)) == pytest.approx(math.log(0.3 * 0.5 + 0.7 * 0.9), rel=1e-6)


@pytest.mark.parametrize("bad", [1.5, -0.1, math.nan])
def test_what_is_no_probability_is_named(bad: float) -> None:
    module = Probability(DNF.from_clauses([[1, 2]]))
    with pytest.raises(ValueError, match="row 1, variable 0"):
        module(torch.tensor([[0.5, 0.5], [bad, 0.5]]))
    with pytest.raises(ValueError, match=r"\(\.\.\., 2\)"):
        module(torch.rand(4, 3))
    with pytest.raises(TypeError, match="floating"):
        module(torch.ones(4, 2, dtype=torch.int64))
    with pytest.raises(TypeError, match="a DNF or a Circuit, not int"):
        Probability([3])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="at least one"):
        Probability([])


def test_names_make_variables_the_same() -> None:
    left, right = Circuit.parse("a & b"), Circuit.parse("c | a")
    module = Probability([left, right])
    assert module.names == ("a", "b", "c")
    found = module(torch.tensor([0.5, 0.25, 0.1], dtype=torch.float64)).exp()
    assert found.tolist() == pytest.approx([0.125, 1 - 0.5 * 0.9])


def test_impossible_and_certain_formulas() -> None:
    module = Probability(
        [DNF.from_clauses([], num_vars=2), DNF.from_clauses([[]], num_vars=2), DNF.from_clauses([[1]])]
    )
    probs = torch.tensor([[0.0, 0.3]], dtype=torch.float64)
    assert module(probs).tolist() == [[-math.inf, 0.0, -math.inf]]
    assert slopes(module, probs).tolist() == [[0.0, 0.0]]
    assert slopes(Probability(DNF.from_clauses([[1]]), log=False), probs[:, :1]).tolist() == [[1.0]]


def test_values_beyond_doubles_keep_their_gradient() -> None:
    n = 400
    module = Probability([DNF.from_clauses([list(range(1, n + 1))]), DNF.from_clauses([[1]])])
    probs = torch.full((2, n), 1e-3, dtype=torch.float64)
    log_prob = module(probs)
    assert log_prob[0, 0].item() == pytest.approx(n * math.log(1e-3))
    grad = slopes(module, probs, torch.tensor([[-2.0, 0.5], [1.0, 0.0]], dtype=torch.float64))
    assert grad[0, 0].item() == pytest.approx(-2000.0 + 500.0)
    assert grad[0, 1:].tolist() == pytest.approx([-2000.0] * (n - 1))
    assert grad[1].tolist() == pytest.approx([1000.0] * n)


@pytest.mark.parametrize("outputs", [1, 2])
def test_a_slope_beyond_float32_with_weight_zero_is_a_number(outputs: int) -> None:
    module = Probability([DNF.from_clauses([[1, 2]])] * outputs)
    probs = torch.tensor([[1e-44, 0.5]])
    assert slopes(module, probs, torch.zeros(1, outputs)).tolist() == [[0.0, 0.0]]


def test_minus_zero_is_a_probability() -> None:
    module = Probability(DNF.from_clauses([[1], [2]]))
    assert module(torch.tensor([[-0.0, 0.5]])).exp().item() == pytest.approx(0.5)


def test_one_output_takes_a_batch_of_gradients() -> None:
    module, probs = Probability(DNF.from_clauses([[1, 2], [-1, 3]])), torch.rand(2, 3, dtype=torch.float64)
    one_by_one, together = (torch.autograd.functional.jacobian(module, probs, vectorize=v) for v in (False, True))
    assert torch.allclose(one_by_one, together)


def test_outputs_share_their_nodes() -> None:
    dnf = DNF.from_clauses([[1, 2], [2, 3], [3, 4]])
    one, three = Probability(dnf), Probability([dnf, dnf, dnf])
    assert one.extra_repr().split(", ")[2] == three.extra_repr().split(", ")[2]


def test_many_rows_on_two_threads_are_as_on_one() -> None:
    rng = np.random.default_rng(4)
    dnf = random_dnf(rng, 12, 30, 3)
    probs = torch.rand(20_000, dnf.num_vars, dtype=torch.float64)
    one, two = Probability(dnf, threads=1), Probability(dnf, threads=2)
    assert torch.equal(one(probs), two(probs))
    assert torch.equal(slopes(one, probs), slopes(two, probs))


def test_a_module_can_be_pickled() -> None:
    module = Probability(DNF.from_clauses([[1, 2], [3]]))
    probs = torch.rand(3)
    assert torch.equal(pickle.loads(pickle.dumps(module))(probs), module(probs))


# --- drawn ---------------------------------------------------------------------------------------------------------


def sampled_cases() -> list[tuple[DNF | Circuit, np.ndarray]]:
    """Formulas with inner and with certain probabilities."""
    dnf = DNF.from_clauses([[1, 2], [-2, 3, 4], [-1, -4], [3, 5]])
    circuit = Circuit.parse("atleast(2, a, b & ~c, c, d)")
    return [
        (dnf, np.array([0.3, 0.6, 0.2, 0.7, 0.4])),
        (dnf, np.array([0.0, 0.6, 1.0, 0.7, 0.4])),
        (circuit, np.array([0.3, 0.6, 0.2, 0.7])),
        (circuit, np.array([0.3, 1.0, 0.2, 0.0])),
    ]


@pytest.mark.parametrize("log", [True, False])
@pytest.mark.parametrize("case", range(4))
def test_drawn_gradients_have_no_bias_and_the_error_that_was_asked_for(case: int, log: bool) -> None:
    formula, prob = sampled_cases()[case]
    asked, repeats = 0.1, 200
    drawn = Probability(formula, log=log, exact=False, epsilon=asked)
    exact = slopes(Probability(formula, log=log), torch.from_numpy(prob)[None, :]).numpy()
    assert drawn.exact == (False,)
    torch.manual_seed(case)
    rows = torch.from_numpy(np.repeat(prob[None, :], repeats, axis=0))
    found = slopes(drawn, rows).numpy()
    deviation = found.std(axis=0, ddof=1) / math.sqrt(repeats)
    assert np.all(np.abs(found.mean(axis=0) - exact[0]) <= 5.0 * deviation + 1e-12)
    if np.all((prob > 0) & (prob < 1)) and log:
        error = math.sqrt(np.mean(np.sum((found - exact) ** 2, axis=1)))
        assert error <= asked * np.linalg.norm(exact)


def test_a_biased_gradient_would_be_seen() -> None:
    """The test above must fail for the gradient of the k best proofs, which drops clauses."""
    formula, prob = sampled_cases()[0]
    assert isinstance(formula, DNF)
    exact = slopes(Probability(formula), torch.from_numpy(prob)).numpy()
    best = slopes(Probability(DNF.from_clauses([[1, 2], [-2, 3, 4]], num_vars=5)), torch.from_numpy(prob)).numpy()
    assert np.max(np.abs(exact - best)) > 0.5


def test_drawn_values_keep_epsilon_and_the_seed() -> None:
    formula, prob = sampled_cases()[0]
    module, exact = Probability(formula, exact=False, epsilon=0.05, delta=1e-6), Probability(formula)
    rows = torch.from_numpy(np.repeat(prob[None, :], 20, axis=0))
    torch.manual_seed(7)
    first = module(rows)
    torch.manual_seed(7)
    assert torch.equal(first, module(rows))
    assert torch.all((first.exp() / exact(rows).exp() - 1.0).abs() <= 0.05)


def test_a_drawn_formula_of_probability_zero() -> None:
    for formula in (DNF.from_clauses([[1, 2]]), Circuit.parse("a & b")):
        module = Probability(formula, exact=False)
        rows = torch.tensor([[0.0, 0.5]], dtype=torch.float64)
        assert module(rows).tolist() == [[-math.inf]]
        assert slopes(module, rows).tolist() == [[0.0, 0.0]]


def test_compiled_and_drawn_formulas_stand_side_by_side() -> None:
    rng = np.random.default_rng(5)
    small = DNF.from_clauses([[1, 2], [3]], num_vars=60)
    clauses = [(rng.choice(60, 3, replace=False) + 1).tolist() for _ in range(80)]
    module = Probability([small, DNF.from_clauses(clauses, num_vars=60)], operations=1000.0)
    assert module.exact == (True, False)
    probs = torch.full((1, 60), 0.2, dtype=torch.float64)
    assert module(probs)[0, 0].item() == pytest.approx(math.log(1 - 0.96 * 0.8))
    with pytest.raises(LimitError, match="models"):
        slow = Probability(DNF.from_clauses(clauses, num_vars=60), exact=False, epsilon=1e-3, timeout=0.0)
        slow(probs)


def test_too_few_models_are_told() -> None:
    formula, prob = sampled_cases()[0]
    module = Probability(formula, exact=False, epsilon=0.01, max_models=1000)
    with pytest.warns(NotMetWarning, match="max_models"):
        slopes(module, torch.from_numpy(prob)[None, :])


def test_models_needed_by_hand() -> None:
    # Slope 1, variance 4 of a single model: sqrt(4 / (1600 * 0.25)) = 0.1 of the slope is not sure.
    needed = models_needed(np.array([1.0]), np.array([4.0]), 1600, 0.1, 0.25)
    assert needed == math.ceil(4.0 / (0.1 * 0.9) ** 2)
    assert models_needed(np.array([1e-4]), np.array([4.0]), 100, 0.1, 0.05) == math.inf


@pytest.mark.parametrize("formula", [DNF.from_clauses([[1, 2], [-3, 4]]), Circuit.parse("(a & b) | (~c & d)")])
def test_drawn_gradients_of_an_impossible_formula_are_those_of_the_exact_one(formula: DNF | Circuit) -> None:
    """P is 0 and so is the gradient of log P by convention, but that of P is not: one variable can lift it."""
    probs = torch.tensor([[0.0, 0.7, 1.0, 0.3]], dtype=torch.float64)
    for most in (1 << 18, 10):  # with too few for a pilot too
        found = slopes(Probability(formula, log=False, exact=False, epsilon=0.02, max_models=most), probs)
        assert found[0].tolist() == pytest.approx([0.7, 0.0, -0.3, 0.0], rel=0.12)


@pytest.mark.parametrize("log", [True, False])
def test_drawn_gradients_keep_epsilon_where_most_variables_are_certain(log: bool) -> None:
    """Certain variables without influence have a slope of 0 whose estimate is noisy: they count in the error too."""
    sure = [f"s{i}" for i in range(20)]
    formula = Circuit.parse(f"(a ^ b) & ({' | '.join(sure)})")
    prob = np.array([0.5, 1.0] + [1.0] * 20)
    asked, repeats = 0.3, 30
    rows = torch.from_numpy(np.repeat(prob[None, :], repeats, axis=0))
    torch.manual_seed(1)
    found = slopes(Probability(formula, log=log, exact=False, epsilon=asked, delta=0.5), rows).numpy()
    exact = slopes(Probability(formula, log=log), rows[:1]).numpy()
    assert math.sqrt(np.mean(np.sum((found - exact) ** 2, axis=1))) <= asked * np.linalg.norm(exact)
