"""A real browser, Chromium without a window, and axe-core, which checks that a page is accessible."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_PATIENCE = 60.0

# Without the right to make namespaces, as root or in a container, Chromium starts without its sandbox only.
_FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1280,900"]


def why_there_is_no_browser() -> str | None:
    """Return the missing prerequisite, or None."""
    for package in ("selenium", "axe_core_python"):
        if importlib.util.find_spec(package) is None:
            return f"{package} is not installed"
    for program, debian in (("chromium", "chromium"), ("chromedriver", "chromium-driver")):
        if shutil.which(program) is None:
            return f"{program} is not installed (on Debian: sudo apt-get install {debian})"
    return None


class Browser:
    """A browser.

    Args:
      driver: Selenium's.
    """

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(self, url: str) -> None:
        """Open a page."""
        self.driver.get(url)

    def wait_until(self, holds: Callable[[], object], what: str) -> Any:
        """Wait for a condition, whose elements may be replaced meanwhile, and return its value."""
        from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException

        deadline = time.monotonic() + _PATIENCE
        while True:
            began = time.monotonic()
            try:
                if found := holds():
                    return found
            except (NoSuchElementException, StaleElementReferenceException):
                pass
            assert time.monotonic() < deadline, f"waited in vain: {what}\n{self.text}\n{self.errors()}"
            time.sleep(max(0.05, 3 * (time.monotonic() - began)))

    @property
    def text(self) -> str:
        """The visible text of the page."""
        return str(self.driver.execute_script("return document.body.innerText"))

    def find(self, selector: str) -> Any:
        """Return the first element of a CSS selector."""
        return self.driver.find_element("css selector", selector)

    def texts(self, selector: str) -> list[str]:
        """Return the texts of the elements of a CSS selector."""
        script = "return [...document.querySelectorAll(arguments[0])].map(each => each.textContent)"
        return [str(text) for text in self.driver.execute_script(script, selector)]

    def violations(self) -> list[str]:
        """Return what axe-core finds inaccessible: the rule, and the first element that breaks it."""
        import axe_core_python

        if not self.driver.execute_script("return 'axe' in window"):
            source = (pathlib.Path(axe_core_python.__file__).parent / "axe.min.js").read_text()
            self.driver.execute_script(source)
        found = self.driver.execute_async_script(
            "const done = arguments[0];"
            # Of what is as it should be, which is nearly all of the page, nothing is described.
            "const rules = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice'];"
            "axe.run({runOnly: rules, resultTypes: ['violations'], selectors: false})"
            ".then(result => done(result.violations), error => done([{id: String(error), nodes: []}]))"
        )
        return [
            f"{each['id']}: {each['nodes'][0]['html'][:200] if each['nodes'] else ''} {each.get('help', '')}"
            + (f" {each['nodes'][0].get('failureSummary', '')}" if each["nodes"] else "")
            for each in found
        ]

    def errors(self) -> list[str]:
        """Return the errors that scripts and the page have logged since the last call."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]

    def screenshot(self, path: pathlib.Path) -> None:
        """Save what is visible as a PNG."""
        self.driver.save_screenshot(str(path))

    def resize(self, width: int, height: int) -> None:
        """Give the page another size, in pixels of CSS."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def in_dark(self, is_dark: bool = True) -> None:
        """Prefer dark colours from now on, or light ones."""
        features = [{"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def save_screenshot(browser: Browser, name: str) -> None:
    """Save a screenshot, if `PENSTOCK_SCREENSHOTS` names a directory for them."""
    directory = os.environ.get("PENSTOCK_SCREENSHOTS")
    if directory:
        browser.screenshot(pathlib.Path(directory) / f"ui_{name}.png")


@contextmanager
def running_browser(directory: pathlib.Path) -> Iterator[Browser]:
    """Run a browser, whose files are in a directory, until the end of the block."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for flag in (*_FLAGS, f"--user-data-dir={directory / 'browser'}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(str(shutil.which("chromedriver"))))
    # Beside other tests, a check of the whole page may take longer than the 30 s of Selenium.
    driver.set_script_timeout(3 * _PATIENCE)
    try:
        yield Browser(driver)
    finally:
        driver.quit()
