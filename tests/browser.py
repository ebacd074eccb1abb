"""A real Chromium that drives the page of a running service, for the tests of the page and for its pictures."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
PATIENCE = 60
"""Seconds that a test waits for something that comes at once on a quiet machine."""
RUNNING = "--no-sandbox --headless=new --disable-gpu --disable-dev-shm-usage --hide-scrollbars"

SEEN = "[...document.querySelectorAll(arguments[0])].filter((element) => element.checkVisibility())"


def shown(text: str) -> float:
    """A number as the page writes it."""
    return float(text.rsplit(maxsplit=1)[-1].replace("−", "-"))


@contextmanager
def service(*options: str) -> Iterator[str]:
    """A running service; its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "sharpdnf.cli", "serve", "--quiet", "--port", str(port), *options]
    address = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryFile() as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            wait_until_healthy(address, process)
            yield address
        except OSError:
            log.seek(0)
            raise AssertionError(f"the service did not start: {log.read().decode()[-2000:]}") from None
        finally:
            process.terminate()


def wait_until_healthy(address: str, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + PATIENCE
    while True:
        try:
            urllib.request.urlopen(f"{address}/health", timeout=5).read()
            return
        except OSError:
            if process.poll() is not None or time.monotonic() > until:
                raise
            time.sleep(0.1)


class Page:
    """The page in a browser: what a person does with it, by CSS selectors."""

    def __init__(self, address: str, downloads: Path) -> None:
        from selenium import webdriver

        options = webdriver.ChromeOptions()
        options.binary_location = str(CHROMIUM)
        for argument in RUNNING.split():
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        service = webdriver.ChromeService(DRIVER, env={**os.environ, "HOME": str(downloads)})
        self.browser = webdriver.Chrome(options=options, service=service)
        self.browser.set_page_load_timeout(PATIENCE)
        self.command("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(downloads))
        self.address, self.folder = address, downloads
        self.size(1280, 900)

    def command(self, name: str, **arguments: Any) -> Any:
        """A command of the browser's debugging protocol."""
        return self.browser.execute_cdp_cmd(name, arguments)

    def size(self, width: int, height: int) -> None:
        self.command(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )

    def dark(self, on: bool) -> None:
        value = "dark" if on else "light"
        self.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": value}])

    def open(self) -> None:
        """The page as somebody sees it who comes for the first time; but the session goes on, as one starts slowly."""
        if not self.browser.current_url.startswith(self.address):
            self.browser.get(self.address)
        forget = "Object.keys(sessionStorage).filter((key) => key !== 'sharpdnf.session')"
        self.script(f"{forget}.forEach((key) => sessionStorage.removeItem(key))")
        self.reload()

    def story(self, name: str) -> None:
        """Opens one of the stories."""
        if not self.all("#start"):
            self.click("#to-stories")
        self.click(f".story[data-story={name}]")

    def reload(self) -> None:
        self.browser.refresh()
        self.wait_for("body[data-ready]")

    def script(self, code: str, *arguments: Any) -> Any:
        return self.browser.execute_script(code, *arguments)

    def until(self, condition: Any, what: str) -> Any:
        """Waits until a function gives something true."""
        from selenium.common.exceptions import StaleElementReferenceException, TimeoutException
        from selenium.webdriver.support.ui import WebDriverWait

        waiting = WebDriverWait(self.browser, PATIENCE, 0.05, ignored_exceptions=[StaleElementReferenceException])
        try:
            return waiting.until(lambda _: condition())
        except TimeoutException:
            raise AssertionError(f"waited for {what}; errors shown: {self.errors()}; {self.complaints()}") from None

    def all(self, selector: str) -> list[Any]:
        """The elements of the selector that can be seen."""
        return list(self.script(f"return {SEEN}", selector))

    def wait_for(self, selector: str, text: str = "") -> Any:
        """The first visible element of the selector, with the text in it."""
        first = f"return {SEEN}.find((element) => element.textContent.includes(arguments[1])) ?? null"
        return self.until(lambda: self.script(first, selector, text), f"{selector} {text}")

    def click(self, selector: str, text: str = "") -> None:
        found = self.wait_for(selector, text)
        self.script("arguments[0].scrollIntoView({block: 'center'})", found)
        found.click()

    def choose(self, selector: str, text: str) -> None:
        """Takes the option with this text from a list."""
        from selenium.webdriver.support.ui import Select

        Select(self.wait_for(selector)).select_by_visible_text(text)

    def write(self, selector: str, text: str) -> None:
        """Puts a text into a field as typing it would."""
        field = self.wait_for(selector)
        self.script("arguments[0].value = ''", field)
        field.send_keys(text)
        self.script("arguments[0].dispatchEvent(new Event('change', {bubbles: true}))", field)

    def move(self, slider: Any, value: float) -> None:
        """Moves a slider."""
        self.script("arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('input'))", slider, value)

    def texts(self, selector: str) -> list[str]:
        return list(self.script(f"return {SEEN}.map((element) => element.innerText ?? element.textContent)", selector))

    def number(self, selector: str) -> float:
        """A probability as it is shown."""
        return shown(self.wait_for(selector).text)

    def upload(self, path: Path) -> None:
        self.browser.find_element("id", "file").send_keys(str(path))

    def errors(self) -> list[str]:
        return [text for text in self.texts("[role=alert]") if text]

    def complaints(self) -> list[str]:
        """What the browser itself finds wrong: scripts that fail, files that are missing, what the policy forbids."""
        return [json.dumps(entry) for entry in self.browser.get_log("browser") if entry["level"] == "SEVERE"]
