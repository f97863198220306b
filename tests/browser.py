"""A real Chromium without a window, for tests of pages; without it they are skipped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service

from tests.tools import tool

FLAGS = (
    "--headless=new",
    "--no-sandbox",  # tests run as root on machines made for them
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    # It looks for nothing outside.
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1320,1100",
)


@contextmanager
def browser(profile: Path) -> Iterator[Chrome]:
    """Yield a browser with an empty profile in the folder."""
    options = ChromeOptions()
    options.binary_location = tool("chromium")
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    started = Chrome(options=options, service=Service(tool("chromedriver")))
    try:
        yield started
    finally:
        started.quit()
