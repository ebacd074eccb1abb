"""Draws the pictures of the page that stand in the documentation, docs/pictures/page-*.png, in a real Chromium.

``make screenshots`` runs it. A picture is one view of a bundled story, so that it shows what a newcomer will see.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from browser import Page, service

PICTURES = Path(__file__).resolve().parent.parent / "docs" / "pictures"
WIDTH = 1280


def shoot(page: Page, name: str, first: str, last: str, width: int = WIDTH) -> None:
    """Saves the part of the page from the top of one element to the end of another."""
    page.script("document.activeElement.blur(); scrollTo(0, 0)")
    page.command("Input.dispatchMouseEvent", type="mouseMoved", x=1, y=300)  # away from what a pointer highlights
    page.size(width, page.script("return document.documentElement.scrollHeight"))
    box = "return document.querySelector(arguments[0]).getBoundingClientRect().toJSON()"
    begin, end = page.script(box, first), page.script(box, last)
    left, top = max(0, begin["left"] - 12), max(0, begin["top"] - 12)
    right, bottom = min(width, max(begin["right"], end["right"]) + 12), end["bottom"] + 20
    clip = {"x": left, "y": top, "width": right - left, "height": bottom - top, "scale": 1}
    data = page.command("Page.captureScreenshot", format="png", clip=clip)["data"]
    save(data, PICTURES / f"page-{name}.png")
    page.size(width, 900)


def save(data: str, path: Path) -> None:
    """Keeps the colours that a drawing needs, which makes the file a third as large."""
    import base64
    import io

    from PIL import Image

    path.parent.mkdir(exist_ok=True)
    drawn = Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB")
    drawn.quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)
    print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")


def main() -> None:
    with service() as address, tempfile.TemporaryDirectory() as folder:
        page = Page(address, Path(folder))
        try:
            page.size(WIDTH, 900)
            page.open()
            shoot(page, "start", ".top", "#stories")
            page.story("sensors")
            page.wait_for("button.why")
            page.click(".chip", "two sensors")
            page.until(lambda: not page.all("#progress"), "answers")
            page.click("#answers-rows .prob-head .sort")
            shoot(page, "answers", ".top", "#answers")
            page.click("button.why")
            page.wait_for("#influences input")
            helps = next(i for i, text in enumerate(page.texts(".influence-number")) if "−" not in text)
            page.move(page.all("#influences input[type=range]")[helps], 0.1)
            page.wait_for("#whatif-now .muted")
            shoot(page, "why", "#answer", "#answer")
            for story, last in (("network", "#network-picture"), ("faulttree", "#tree-picture")):
                page.open()
                page.dark(story == "faulttree")
                page.story(story)
                page.wait_for(f"{last} *")
                shoot(page, story, ".top", last)
        finally:
            page.browser.quit()


if __name__ == "__main__":
    main()
