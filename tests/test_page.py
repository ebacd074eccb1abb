"""The page of the service in a real Chromium: the whole way of each story, and what goes wrong on the way."""

from __future__ import annotations

import csv
import importlib.util
import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import CHROMIUM, DRIVER, Page, service, shown

NEEDED = {"chromium": CHROMIUM, "chromedriver": DRIVER}
NEEDED |= {name: importlib.util.find_spec(name) for name in ("selenium", "starlette", "uvicorn", "duckdb")}
MISSING = ", ".join(name for name, found in NEEDED.items() if not found)
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"the page is tried in a browser, which needs {MISSING}")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with service() as address:
        page = Page(address, tmp_path_factory.mktemp("downloads"))
        try:
            yield page
        finally:
            page.browser.quit()


@pytest.fixture
def page(browser: Page) -> Iterator[Page]:
    """The page at its start; afterwards the browser must have nothing to complain of but what a test expects."""
    browser.size(1280, 900)
    browser.open()
    browser.complaints()
    yield browser
    expected = ("status of 422", "status of 504", "status of 404", "status of 413")
    assert [c for c in browser.complaints() if not any(word in c for word in expected)] == []


def table(folder: Path, name: str, *lines: str) -> Path:
    path = folder / name
    path.write_text("\n".join(lines) + "\n")
    return path


def test_record_linkage(page: Page) -> None:
    page.story("linkage")
    page.wait_for("button.why")
    assert page.wait_for("#answers-promise").text.startswith("Each probability is exact")
    assert page.wait_for("#answers-way").text
    page.click("#answers-rows .prob-head .sort")
    probs = [shown(text) for text in page.texts("#answers-rows .prob")]
    assert probs == sorted(probs, reverse=True)
    assert len(probs) > 2

    page.click("button.why")
    page.wait_for("svg.lineage .lineage-row")
    before = page.number("#whatif-now .prob")
    assert before == probs[0]
    influence = shown(page.texts("#influences .influence-number")[0])
    slider = page.all("#influences input[type=range]")[0]
    said = []
    for p in (1, 0):
        page.move(slider, p)
        said.append(float(page.until(lambda: changed(page, {before, *said}), "a new answer")))
    assert said[0] - said[1] == pytest.approx(influence, abs=2e-4)  # the probability is linear in that of a row
    page.click("#whatif-reset")
    page.until(lambda: page.number("#whatif-now .prob") == before, "the answer as it was")

    page.click("#export-csv")
    saved = page.folder / "answers.csv"
    page.until(saved.exists, "the saved file")
    assert len(list(csv.reader(saved.open()))) == len(probs) + 1


def changed(page: Page, before: set[float]) -> str | None:
    now = page.wait_for("#whatif-now .prob").text
    return now if float(now) not in before else None


def test_sensors(page: Page) -> None:
    page.story("sensors")
    page.wait_for("button.why")
    assert "block" in page.texts("#schema .badge")
    assert page.wait_for("#mark-block").get_attribute("value") not in ("", None)
    for chip in range(len(page.all(".chip"))):
        sql = page.wait_for("#query").get_attribute("value")
        page.all(".chip")[chip].click()
        if chip:
            assert page.wait_for("#query").get_attribute("value") != sql
        page.until(lambda: not page.all("#progress") and page.all("button.why"), "answers")
        assert page.errors() == []


def test_network(page: Page) -> None:
    page.story("network")
    page.wait_for("svg.network")
    links = page.wait_for("#links").get_attribute("value").splitlines()
    assert len(page.all("svg.network .link-line")) == len(links)
    colours = {page.script("return getComputedStyle(arguments[0]).stroke", e) for e in page.all(".link-line")}
    assert len(colours) > 2
    before = page.number("#network-said .prob")
    importance = float(page.texts("#network-table .prob-text")[0])
    page.click("#network-table button")
    slider = page.wait_for("#network-link input[type=range]")
    p = float(slider.get_attribute("value"))
    page.move(slider, 0)
    page.until(lambda: page.number("#network-said .prob") != before, "another reliability")
    assert before - page.number("#network-said .prob") == pytest.approx(p * importance, abs=2e-3)
    page.choose("#network-question", "What is reached from a node?")
    page.click("#network-run")
    page.wait_for("#view-network .node.reached circle")


def test_fault_tree(page: Page) -> None:
    page.story("faulttree")
    page.wait_for("svg.tree .gate")
    text = page.wait_for("#tree-text").get_attribute("value")
    asked = json.dumps({"text": text, "format": "openpsa"}).encode()
    sent = urllib.request.Request(f"{page.address}/api/faulttree", asked, {"Content-Type": "application/json"})
    said = json.load(urllib.request.urlopen(sent, timeout=60))
    assert page.number("#tree-said .prob") == pytest.approx(said["prob"], rel=1e-3)
    assert len(page.all("svg.tree .gate")) == len(said["gates"])
    assert len(page.all("svg.tree .event")) == len(said["events"])
    assert len(page.all("#tree-events tbody tr")) == len(said["events"])
    assert len(page.all("#tree-cuts tbody tr")) == len(said["cut_sets"])


def test_a_formula_typed_by_hand(page: Page) -> None:
    page.click("#tab-formula")
    page.write("#formula", "a & b | ~c")
    page.click("#formula-run")
    page.until(lambda: page.texts("#formula-said .prob") == ["0.6250"], "5 of 8 worlds")
    names = page.until(lambda: page.texts("#variables strong"), "variables")
    page.move(page.all("#variables input[type=range]")[names.index("c")], 0)
    page.until(lambda: page.texts("#formula-said .prob") == ["1"], "a formula that is surely true")
    page.write("#formula", "a & (b")
    page.click("#formula-run")
    page.wait_for("#formula-error")


def test_a_file_with_bad_probabilities(page: Page, tmp_path: Path) -> None:
    page.upload(table(tmp_path, "Visits 2024.csv", "place,p", "dock,0.5", "bridge,1.3", "tower,", "gate,0.25"))
    page.click("#mark-suggestion button", "Mark p")
    page.wait_for("#problems", "2 problems")
    assert len(page.all("#table-rows tr.wrong-row")) == 2
    assert "1.3" in page.wait_for("tr.wrong-row .wrong-words").text
    page.choose("#mark-prob", "an expression…")
    page.write("#mark-expression", "least(coalesce(p, 0), 1)")
    page.until(lambda: not page.all("#problems"), "no problems")
    page.write("#query", "SELECT place FROM visits_2024")
    page.click("#run")
    page.until(lambda: sorted(page.texts("#answers-rows .prob")) == ["0.2500", "0.5000", "1"], "three answers")


def test_a_file_that_is_none(page: Page, tmp_path: Path) -> None:
    bad = tmp_path / "broken.parquet"
    bad.write_bytes(b"PAR1 is not enough")
    page.upload(bad)
    assert "broken.parquet" in page.wait_for("#notice-text", "cannot be read").text
    page.click("#notice-close")
    assert not page.all("#notice")


def test_a_dropped_file_and_the_schema(page: Page) -> None:
    page.script(
        "const drop = new DataTransfer(); drop.items.add(new File(['name,p\\nx,0.25\\n'], 'dropped.csv'));"
        "for (const kind of ['dragover', 'drop'])"
        " dispatchEvent(new DragEvent(kind, {dataTransfer: drop, cancelable: true}));"
    )
    page.wait_for("#schema .schema-name", "dropped")
    page.write("#query", "SELECT ")
    page.click(".schema-column", "name")
    assert page.wait_for("#query").get_attribute("value") == "SELECT name"


def test_a_query_over_its_limit_and_one_that_is_stopped(page: Page, tmp_path: Path) -> None:
    page.upload(table(tmp_path, "big.csv", "a,p", *(f"{i},0.5" for i in range(2000))))
    page.wait_for("#schema .schema-name", "big")
    endless = "SELECT count(*) FROM big x, big y, big z, big u WHERE x.a + y.a + z.a + u.a = 7"
    page.write("#query", endless)
    page.write("#seconds", "1")
    page.click("#run")
    said = page.wait_for("#query-error").text  # by the database, or by the service that ends its process
    assert "did not finish within" in said or "took longer than" in said
    page.write("#seconds", "30")
    page.click("#run")
    page.wait_for("#progress")
    page.click("#stop")
    page.until(lambda: not page.all("#progress"), "the end of the query")
    page.write("#query", "SELECT min(a) FROM big")
    page.click("#run")
    page.wait_for("#answers-rows td", "0")


def test_a_reload_brings_everything_back(page: Page) -> None:
    page.story("linkage")
    page.wait_for("button.why")
    before = {s: page.texts(s) for s in ("#schema .schema-name", "#answers-rows tbody tr", ".chip", "#answers-promise")}
    page.write("#query", "SELECT 1 AS half_written")
    page.reload()
    assert {s: page.texts(s) for s in before} == before
    assert page.wait_for("#query").get_attribute("value") == "SELECT 1 AS half_written"
    page.click("button.why")
    page.wait_for("svg.lineage")


def test_a_reload_in_the_middle_of_a_query(page: Page, tmp_path: Path) -> None:
    page.upload(table(tmp_path, "big.csv", "a,p", *(f"{i},0.5" for i in range(2000))))
    page.wait_for("#schema .schema-name", "big")
    page.write("#query", "SELECT count(*) FROM big x, big y, big z, big u WHERE x.a + y.a + z.a + u.a = 7")
    page.click("#run")
    page.wait_for("#progress")
    page.reload()
    assert "Run it again" in page.wait_for("#query-error").text
    page.write("#query", "SELECT max(a) FROM big")
    page.click("#run")
    page.wait_for("#answers-rows td", "1999")


def test_a_session_that_has_ended(page: Page, tmp_path: Path) -> None:
    page.upload(table(tmp_path, "short.csv", "a", "1"))
    page.wait_for("#schema .schema-name", "short")
    session = json.loads(page.script("return sessionStorage.getItem('sharpdnf.session')"))
    gone = urllib.request.Request(f"{page.address}/api/sessions/{session}", method="DELETE")
    urllib.request.urlopen(gone, timeout=60).close()
    page.reload()
    page.wait_for("#notice-text", "has ended")
    page.upload(table(tmp_path, "again.csv", "a", "1"))
    page.wait_for("#schema .schema-name", "again")


def test_nothing_in_a_table_runs_as_a_script(page: Page, tmp_path: Path) -> None:
    evil = "<img src=x onerror=window.hacked=1><script>window.hacked=1</script>"
    page.upload(
        table(tmp_path, "<img src=x onerror=window.hacked=1>.csv", f'"{evil}",p', f'"{evil}",0.5', f'"{evil}2",0.5')
    )
    page.click("#mark-suggestion button", "Mark p")
    page.wait_for("#schema .badge", "probability")
    page.click(".schema-column", "<img")
    name = page.wait_for(".schema-table.current .schema-name span").text
    page.write("#query", f'SELECT "{evil}" FROM {name}')
    page.click("#run")
    page.click("button.why")
    page.wait_for("svg.lineage .lineage-row")
    assert evil in page.wait_for("#answers-rows td").text
    assert evil in page.wait_for("#answer-title").text
    page.click("#tab-network")
    page.write("#links", f"{evil.replace(',', '')}, b, 0.5")
    page.write("#source", evil)
    page.write("#target", "b")
    page.click("#network-run")
    page.wait_for("svg.network .node")
    assert page.script("return [window.hacked, document.querySelectorAll('main img, main script').length]") == [None, 0]


def test_the_keyboard_alone(page: Page) -> None:
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    def press(*keys: str) -> None:
        ActionChains(page.browser).send_keys(*keys).perform()

    def tab_to(selector: str) -> None:
        for _ in range(60):
            if page.script("return document.activeElement.matches(arguments[0])", selector):
                return
            press(Keys.TAB)
        raise AssertionError(f"the Tab key does not come to {selector}")

    tab_to("#tab-sql")
    press(Keys.ARROW_RIGHT)
    assert page.wait_for("#view-network")
    press(Keys.HOME)
    if not page.all("#start"):
        tab_to("#to-stories")
        press(Keys.ENTER)
    tab_to(".story[data-story=linkage]")
    press(Keys.ENTER)
    page.wait_for("button.why")
    page.until(lambda: page.script("return document.activeElement.id") == "query", "the focus in the query")
    ActionChains(page.browser).key_down(Keys.CONTROL).send_keys(Keys.ENTER).key_up(Keys.CONTROL).perform()
    page.until(lambda: not page.all("#progress") and page.all("button.why"), "answers")
    tab_to(".prob-head .sort")
    press(Keys.ENTER)
    tab_to("button.why")
    press(Keys.ENTER)
    page.wait_for("#influences input")
    before = page.wait_for("#whatif-now .prob").text
    tab_to("#influences input[type=range]")
    press(Keys.HOME)
    page.until(lambda: page.wait_for("#whatif-now .prob").text != before, "another answer")
    press(Keys.ESCAPE)
    assert not page.all("#answer")
    assert page.script("return document.activeElement.className") == "why"


def test_names_of_controls_narrow_screens_and_contrast(page: Page) -> None:
    page.story("sensors")
    page.click("button.why")
    page.wait_for("#influences input")
    assert page.script("return document.getElementById('live').textContent")
    controls = {"button", "textbox", "spinbutton", "slider", "combobox", "checkbox", "tab", "region", "image", "table"}
    said = [
        (node["role"]["value"], node.get("name", {}).get("value", ""))
        for node in page.command("Accessibility.getFullAXTree")["nodes"]
        if not node["ignored"] and node["role"]["value"] in controls
    ]
    assert len(said) > 30
    assert [role for role, name in said if not name.strip()] == []
    page.size(400, 800)
    for view in ("network", "faulttree", "formula", "sql"):
        page.click(f"#tab-{view}")
        assert page.script("return document.documentElement.scrollWidth") <= 400, view
    pairs = [("accent-ink", "accent"), ("warn", "warn-soft"), ("gold", "gold-soft"), ("accent", "accent-soft")]
    pairs += [(ink, ground) for ink in ("ink", "muted") for ground in ("page", "surface", "sunk", "accent-soft")]
    for dark in (True, False):
        page.dark(dark)
        assert [pair for pair in pairs if contrast(page, *pair) < 4.5] == []


def contrast(page: Page, ink: str, ground: str) -> float:
    """How much two colours of the page differ in luminance, as WCAG 2 says."""
    read = "return getComputedStyle(document.documentElement).getPropertyValue('--' + arguments[0])"
    both = [page.script(read, name) for name in (ink, ground)]
    light, dark = sorted((luminance(colour.strip()) for colour in both), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_nothing_comes_from_elsewhere(page: Page) -> None:
    loaded = page.script("return performance.getEntriesByType('resource').map((entry) => entry.name)")
    assert len(loaded) > 5
    assert all(name.startswith(page.address) for name in loaded)
