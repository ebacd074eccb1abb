"""Expressions of the Open-PSA format: values worked out by hand, parameters, and their cycles."""

from __future__ import annotations

import math

import pytest
from openpsa_text import T, event, f, gate, mef

from sharpdnf import faulttree
from sharpdnf.errors import ParseError


def value_of(expression: str, mission_time: float | None = None, data: str = "") -> float:
    """The number that an expression stands for, as the probability of an event."""
    tree = faulttree.reads(mef(gate("top", "<basic-event name='a'/>"), event("a", expression) + data))
    return tree.probability(mission_time=mission_time).prob


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (f"<exponential>{f(1e-3)}{T}</exponential>", 1 - math.exp(-0.1)),
        (f"<GLM>{f(0.1, 1e-3, 2e-3)}{T}</GLM>", 1 / 3 - (1e-3 - 0.1 * 3e-3) / 3e-3 * math.exp(-0.3)),
        (f"<GLM>{f(0.1, 0, 0)}{T}</GLM>", 0.1),
        (f"<Weibull>{f(200, 2, 20)}{T}</Weibull>", 1 - math.exp(-(0.4**2))),
        (f"<Weibull>{f(200, 2, 120)}{T}</Weibull>", 0.0),
        (f"<periodic-test>{f(1e-3, 30, 0)}{T}</periodic-test>", 1 - math.exp(-0.01)),
        (f"<periodic-test>{f(1e-3, 25, 0)}{T}</periodic-test>", 1 - math.exp(-0.025)),
        (f"<periodic-test>{f(1e-3, 1e300, 30, 0)}{T}</periodic-test>", 1 - math.exp(-0.01)),
        (f"<periodic-test>{f(1e-3, 0, 30, 5)}{T}</periodic-test>", 1 - math.exp(-0.1)),
        (f"<periodic-test>{f(1e-3, 10, 200)}{T}</periodic-test>", 1 - math.exp(-0.1)),
        (f"<sub>{f(1)}<exp><mul><neg>{f(1e-3)}</neg>{T}</mul></exp></sub>", 1 - math.exp(-0.1)),
        (f"<div>{f(1, 2, 2)}</div>", 0.25),
        (f"<pow>{f(0.5, 3)}</pow>", 0.125),
        (f"<sqrt>{f(0.25)}</sqrt>", 0.5),
        (f"<min>{f(0.5, 0.2, 0.7)}</min>", 0.2),
        (f"<max>{f(0.5, 0.2, 0.7)}</max>", 0.7),
        (f"<mean>{f(0.5, 0.2, 0.8)}</mean>", 0.5),
        (f"<add>{f(0.5, 0.2)}</add>", 0.7),
        (f"<mod>{f(1.3, 0.5)}</mod>", 0.3),
        (f"<abs>{f(-0.3)}</abs>", 0.3),
        (f"<log10>{f(2)}</log10>", math.log10(2)),
        ("<sin><div><pi/><int value='6'/></div></sin>", 0.5),
        (f"<ite><lt>{T}{f(50)}</lt>{f(0.1, 0.2)}</ite>", 0.2),
        (
            f"<switch><case><gt>{T}{f(50)}</gt>{f(0.1)}</case><case><bool value='1'/>{f(0.3)}</case>{f(0.2)}</switch>",
            0.1,
        ),
        (f"<ite><and><bool value='true'/><not><eq>{f(1, 1)}</eq></not></and>{f(0.1, 0.2)}</ite>", 0.2),
        ("<bool value='true'/>", 1.0),
        ("<int value='1'/>", 1.0),
    ],
)
def test_expressions(expression: str, expected: float) -> None:
    assert value_of(expression, 100.0) == pytest.approx(expected, rel=1e-12)


def test_periodic_tests_with_repair_against_small_steps() -> None:
    """Working, failed and in repair, followed hour by hour in small steps."""
    rate, repair, tau, theta, t = 7e-4, 4e-4, 120.0, 300.0, 1000.0
    working, failed, mending, steps = 1.0, 0.0, 0.0, 100
    for hour in range(int(t)):
        if hour >= theta and (hour - theta) % tau == 0:
            failed, mending = 0.0, mending + failed
        for _ in range(steps):
            fails, mended = working * rate / steps, mending * repair / steps
            working, failed, mending = working - fails + mended, failed + fails, mending - mended
    found = value_of(f"<periodic-test>{f(rate, repair, tau, theta)}{T}</periodic-test>", t)
    assert found == pytest.approx(1.0 - working, rel=1e-4)


def test_parameters() -> None:
    chain = "".join(
        f"<define-parameter name='p{i}'><parameter name='p{i + 1}'/></define-parameter>" for i in range(3000)
    )
    data = chain + "<define-parameter name='p3000'><float value='0.25'/></define-parameter>"
    assert value_of("<parameter name='p0'/>", None, data) == 0.25
    unit = "<define-parameter name='r' unit='years-1'><float value='0.25'/></define-parameter>"
    tree = faulttree.reads(mef(gate("top", "<basic-event name='a'/>"), event("a", "<parameter name='r'/>") + unit))
    assert tree.notes == ("the unit 'years-1' of parameter 'r' is not converted",)


def test_a_parameter_that_is_defined_by_itself_is_an_error() -> None:
    parameters = "".join(
        f"<define-parameter name='{a}'><parameter name='{b}'/></define-parameter>\n" for a, b in ("pq", "qr", "rp")
    )
    with pytest.raises(ParseError, match=r"<text>:\d+: the parameter '\w' is defined by itself"):
        faulttree.reads(mef(gate("top", "<basic-event name='a'/>"), event("a", "<parameter name='p'/>") + parameters))
