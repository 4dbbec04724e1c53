"""A headless Chromium for the tests of pages; without one they are skipped, with a line that says why.

``WEFT_BROWSER=required`` makes them fail instead, as ``make test-browser`` does.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)


def _give_up(reason: str) -> NoReturn:
    if os.environ.get("WEFT_BROWSER") == "required":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One browser for all tests."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if importlib.util.find_spec("playwright") is None:
        _give_up("no playwright: pip install '.[browser]'")
    if chromium is None:
        _give_up("no chromium: apt-get install chromium")
    api = importlib.import_module("playwright.sync_api")
    with api.sync_playwright() as play:
        started = play.chromium.launch(executable_path=chromium, args=list(FLAGS))
        yield started
        started.close()


class Opened:
    """A page with what went wrong on it, and every address it asked for."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.errors: list[str] = []
        self.requests: list[str] = []
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", lambda line: self.errors.append(line.text) if line.type == "error" else None)
        page.on("request", lambda request: self.requests.append(request.url))

    def open(self, path: Path) -> Page:
        """Load a file and wait until it is drawn."""
        self.page.goto(path.as_uri(), wait_until="load")
        return self.page


@pytest.fixture
def opened(browser: Browser) -> Iterator[Opened]:
    """A fresh page, light."""
    context = browser.new_context(viewport={"width": 1200, "height": 900}, color_scheme="light")
    yield Opened(context.new_page())
    context.close()
