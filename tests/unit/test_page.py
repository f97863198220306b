"""The page of `overspill control` in real Chromium: what it shows, and what it does not do."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from selenium.webdriver import Chrome, Keys
from selenium.webdriver.common.action_chains import ActionChains

from schemas.capability import Capability
from schemas.control import NodeTotals
from streams.board import pages
from tests.boards import Screen, now_ms, served
from tests.browser import browser
from tests.fleet import FleetNode, node
from tests.waiting import in_time, until

pytestmark = pytest.mark.timeout(900)

FOLDER = Path(pages.__file__).parent / "page"
EVIL = "<script>window.harmed = 1</script><img src=x onerror='window.harmed = 1'>"
WITHIN_S = 60.0
NARROW_PX = 320
SINCE = r"since \d\d:\d\d:\d\d, \d+ (s|min) ago( or longer)?"
VENDORED = {
    "uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
}
"""SHA-256 of the files as the npm package uplot 1.6.32 has them."""


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    with browser(tmp_path_factory.mktemp("profile")) as started:
        yield started


def at_work() -> Screen:
    """Return what a worker shows of a fleet with all there is to see."""
    screen = Screen()
    nodes = (node("gpu-1", unfinished=31), node("cpu-1", unfinished=(2, 1), slots=4), node("npu-1"))
    screen.look(*nodes, ends=(3, 4))
    totals = {
        "gpu-1": NodeTotals(results={"ok": 40}, cost=2.5, met=99, missed=1),
        "cpu-1": NodeTotals(results={"ok": 9, "error": 2}, errors={"backend-error": 2}, cost=0.5),
    }
    models = {"gpu-1": (EVIL,)}
    golden = Capability(
        device="d", model="m", max_concurrency=1, golden_error=0.0003,
        validated_at_ms=now_ms() - 130_000,
    )  # fmt: skip
    proven = {"gpu-1": (golden,), "cpu-1": (golden.model_copy(update={"golden_error": None}),)}
    screen.look(*nodes, ends=(3, 4), totals=totals, models=models, proven=proven, threshold=12)
    screen.decide("gpu-preferred", "gpu", 30)
    screen.decide("overflow", "cpu", 10)
    screen.decide("dead:not-json", None, 4)
    return screen


@asynccontextmanager
async def watched(screen: Screen) -> AsyncIterator[None]:
    """Look at what the screen shows anew all the time, as a worker does."""

    async def look_again() -> None:
        while True:
            await asyncio.sleep(0.2)
            seen = screen.board._seen
            if seen is not None:
                screen.board.see(seen, asyncio.get_running_loop().time())

    looking = asyncio.ensure_future(look_again())
    try:
        yield
    finally:
        looking.cancel()


@asynccontextmanager
async def opened(chromium: Chrome, screen: Screen) -> AsyncIterator[str]:
    """Show the screen's page."""
    async with watched(screen), served(screen) as url:
        await asyncio.to_thread(chromium.get, f"{url}/")
        yield url


async def ask(chromium: Chrome, script: str) -> Any:
    return await asyncio.to_thread(chromium.execute_script, script)


async def text(chromium: Chrome, name: str) -> str:
    script = f"return document.querySelector('[data-value=\"{name}\"]')?.textContent ?? ''"
    return str(await ask(chromium, script))


async def shows(chromium: Chrome, name: str, wanted: str) -> None:
    async def shown() -> bool:
        return await text(chromium, name) == wanted

    await until(shown, in_time(WITHIN_S), poll_s=0.1)


def called(name: str, one: FleetNode) -> FleetNode:
    """Return the node under another name."""
    return replace(one, state=one.state.model_copy(update={"id": name}))


def sixty() -> list[FleetNode]:
    """Return a fleet of sixty, eight of them dead."""
    dead = {"live": False, "reason": "no report for 3 s"}
    return [
        called(
            f"{pool}-{number}.rack-{number % 4}.example",
            node(f"{pool}-1", **(dead if pool == "gpu" and number < 8 else {})),
        )
        for pool in ("gpu", "cpu", "npu")
        for number in range(20)
    ]


@contextmanager
def narrow(chromium: Chrome) -> Iterator[None]:
    """Make the screen as narrow as a page at 400 % on a small laptop (WCAG 1.4.10)."""
    size = {"width": NARROW_PX, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        yield
    finally:
        chromium.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


async def pressed_tab(chromium: Chrome) -> dict[str, Any]:
    """Press the tabulator key; return where the focus is and how it is seen."""
    await asyncio.to_thread(ActionChains(chromium).send_keys(Keys.TAB).perform)
    found: dict[str, Any] = await ask(
        chromium,
        """
        const at = document.activeElement, style = getComputedStyle(at);
        const all = [...document.querySelectorAll("a, button, input, select, [tabindex='0']")];
        const box = at.getBoundingClientRect();
        return {
          order: all.indexOf(at), top: box.top + scrollY, outline: style.outlineStyle,
          width: parseFloat(style.outlineWidth), color: style.outlineColor,
          paper: getComputedStyle(document.body).backgroundColor,
          on_screen: box.left >= 0 && box.top < innerHeight && box.bottom > 0,
        };
        """,
    )
    return found | {"contrast": _contrast(found["color"], found["paper"])}


async def rows(chromium: Chrome, table: str) -> list[list[str]]:
    found: list[list[str]] = await ask(
        chromium,
        f"return [...document.querySelectorAll('#{table} tbody tr')]"
        ".map(row => [...row.cells].map(cell => cell.textContent))",
    )
    return found


async def test_numbers_on_the_page_are_those_of_the_metrics(chromium: Chrome) -> None:
    screen = at_work()
    exported = {
        (sample.name, *sample.labels.values()): f"{sample.value:,.0f}"
        for family in text_string_to_metric_families(screen.metrics.exposition().decode())
        for sample in family.samples
    }
    async with opened(chromium, screen):
        for pool in ("gpu", "cpu", "npu"):
            told = {
                name: exported[f"overspill_{metric}", pool]
                for name, metric in (
                    ("queue_depth", "queue_depth_records"),
                    ("unfinished", "unfinished_records"),
                    ("nodes", "live_nodes"),
                )
            }
            free, slots = exported["overspill_free_slots", pool], exported["overspill_slots", pool]
            await shows(chromium, f"{pool}.queue_depth", told["queue_depth"])
            assert await text(chromium, f"{pool}.unfinished") == told["unfinished"]
            assert await text(chromium, f"{pool}.nodes") == told["nodes"]
            assert await text(chromium, f"{pool}.free") == f"{free} of {slots}"
        threshold = exported[("overspill_threshold_records",)]
        assert f"at {threshold} work overflows" in await text(chromium, "gpu.queue_words")
        undecided = exported[("overspill_undecided_records",)]
        assert await text(chromium, "undecided") == f"{undecided} not decided yet"
        assert await text(chromium, "results") == "49 ok, 2 errors, 0 expired"
        assert await text(chromium, "attained") == "99.00 %"
        assert "3.0 slot-seconds in all" in await text(chromium, "cost-total")
        assert [[row[0], row[1], row[5]] for row in await rows(chromium, "decisions")] == [
            ["gpu", "gpu-preferred", "30"],
            ["cpu", "overflow", "10"],
        ]
        assert await rows(chromium, "faults") == [
            ["dead letter", "not-json", "4", "4"],
            ["error", "backend-error", "2", "2"],
        ]
        assert {row[0]: row[9] for row in await rows(chromium, "nodes")} == {
            "gpu-1": "emulated; golden error 0.0003, validated 2 min ago",
            "cpu-1": "emulated; validated 2 min ago",
            "npu-1": "emulated",
        }


async def test_names_are_text_whatever_they_are_and_nothing_is_asked_of_anybody_else(
    chromium: Chrome,
) -> None:
    async with opened(chromium, at_work()) as url:
        await shows(chromium, "gpu.nodes", "1")
        assert EVIL in [row[8] for row in await rows(chromium, "nodes")]
        assert await ask(chromium, "return window.harmed") is None
        assert await ask(chromium, "return document.scripts.length") == 2
        asked = await ask(
            chromium, "return performance.getEntriesByType('resource').map(one => one.name)"
        )
        assert asked
        assert [name for name in asked if not name.startswith(f"{url}/")] == []
        logged = await asyncio.to_thread(chromium.get_log, "browser")
        assert [entry for entry in logged if url in entry["message"]] == []


async def test_keyboard_and_screen_reader_find_all_that_eyes_find(chromium: Chrome) -> None:
    screen = at_work()
    async with opened(chromium, screen):
        await shows(chromium, "gpu.nodes", "1")
        charts = await ask(
            chromium,
            "return [...document.querySelectorAll('.chart')]"
            ".map(one => [one.getAttribute('role'), one.getAttribute('aria-label')])",
        )
        assert charts[0] == [
            "img",
            "Queue of gpu, last ten minutes: now 23, highest 23, threshold 12",
        ]
        assert {role for role, _ in charts} == {"img"}
        headings = await ask(
            chromium, "return [...document.querySelectorAll('th')].every(th => th.scope === 'col')"
        )
        assert headings
        reached = []
        for _ in range(5):
            await asyncio.to_thread(ActionChains(chromium).send_keys(Keys.TAB).perform)
            reached.append(
                await ask(
                    chromium,
                    "const at = document.activeElement;"
                    "return at.getAttribute('aria-labelledby') ?? at.textContent",
                )
            )
        assert reached == [
            "Skip to the pools", "h-decisions", "h-faults", "h-nodes", "/metrics",
        ]  # fmt: skip
        # What changes is said once, not with every number.
        before = await ask(chromium, "return document.querySelector('#spoken').textContent")
        assert "4 records were no request" in before
        screen.look(node("cpu-1"), node("npu-1"))

        async def said() -> bool:
            told = await ask(chromium, "return document.querySelector('#spoken').textContent")
            return "Pool gpu is down" in told

        await until(said, in_time(WITHIN_S), poll_s=0.1)


async def test_focus_goes_down_the_page_is_seen_and_can_skip_to_the_pools(chromium: Chrome) -> None:
    async with opened(chromium, at_work()):
        await shows(chromium, "gpu.nodes", "1")
        reachable = await ask(
            chromium,
            "return document.querySelectorAll('a, button, input, select, [tabindex=\"0\"]').length",
        )
        stops = [await pressed_tab(chromium) for _ in range(reachable)]
        assert len({stop["top"] for stop in stops}) > 2
        assert [stop["order"] for stop in stops] == list(range(reachable))
        for stop in stops:
            assert stop["outline"] not in {"none", "0px"}
            assert stop["width"] >= 2
            assert stop["contrast"] >= 3.0  # WCAG 1.4.11: what shows the focus
            assert stop["on_screen"]
        await ask(chromium, "document.querySelector('.skip').focus()")
        await asyncio.to_thread(ActionChains(chromium).send_keys(Keys.ENTER).perform)
        assert await ask(chromium, "return document.activeElement.id") == "pools"


@pytest.mark.parametrize("many", [False, True], ids=["a few nodes", "sixty"])
async def test_on_a_screen_of_320_pixels_nothing_is_cut_off(chromium: Chrome, many: bool) -> None:
    screen = at_work()
    if many:
        screen.look(*sixty())
    else:
        longest = called("n" * 128, node("gpu-2", live=False, reason="no report for 3 s"))
        slow = called("s" * 128, node("cpu-1", slowness=3.0))
        screen.look(node("gpu-1"), longest, slow, node("npu-1"))
    with narrow(chromium):
        async with opened(chromium, screen):
            await shows(chromium, "npu.queue_words", "queued")
            wide = await ask(
                chromium,
                """
                const scrolls = (one) => one && (one.matches(".scroll") || scrolls(one.parentElement));
                return [...document.querySelectorAll("body, body *")]
                  .filter((one) => !scrolls(one.parentElement) && !one.matches(".unseen, .skip"))
                  .filter((one) => one.getBoundingClientRect().right > 320 || (!scrolls(one) && one.scrollWidth > one.clientWidth + 1 && one.clientWidth))
                  .map((one) => [one.tagName, one.className, one.textContent.slice(0, 40)]);
                """,  # noqa: E501  a script
            )
            assert wide == []
            assert await ask(chromium, "return document.documentElement.scrollWidth") <= NARROW_PX


async def test_a_system_with_nothing_in_it_says_so_and_shows_no_number_that_is_none(
    chromium: Chrome,
) -> None:
    screen = Screen()
    screen.look()
    async with opened(chromium, screen):
        await shows(chromium, "gpu.drain", "no nodes")
        told = await ask(chromium, "return document.body.innerText")
        labels = await ask(
            chromium,
            "return [...document.querySelectorAll('[aria-label], [title]')]"
            ".map((one) => `${one.getAttribute('aria-label')} ${one.title}`).join('; ')",
        )
        for word in ("NaN", "undefined", "null", "Infinity", "object Object"):
            assert word not in told + labels.replace("null ", "")
        for words in (
            "There are no nodes: nothing can run",
            "overspill executor --pool gpu",
            "no request has been decided yet",
            "no node has reported",
            "no request had an objective",
        ):
            assert words in told
        assert await rows(chromium, "faults") == [["none"]]


async def test_sixty_nodes_are_a_table_of_lines_with_those_in_trouble_on_top(
    chromium: Chrome,
) -> None:
    screen = at_work()
    screen.look(*sixty())
    async with opened(chromium, screen):
        await shows(chromium, "cpu.nodes", "20")
        listed = await rows(chromium, "nodes")
        assert len(listed) == 60
        assert {row[2] for row in listed[:8]} == {"down"}
        assert {row[2] for row in listed[8:]} == {"ready"}
        heights = await ask(
            chromium,
            "return [...document.querySelectorAll('#nodes tbody tr')].map(one => one.offsetHeight)",
        )
        assert max(heights) < 40  # one line each
        sizes = await ask(
            chromium,
            "return [...document.querySelectorAll('#nodes *')]"
            ".map(one => parseFloat(getComputedStyle(one).fontSize))",
        )
        assert min(sizes) >= 12
        conditions = await ask(
            chromium, "return document.querySelectorAll('#conditions li').length"
        )
        assert conditions < 6
        assert "8 nodes of gpu are down" in await ask(
            chromium, "return document.querySelector('#conditions').textContent"
        )


async def test_a_command_is_whole_words_that_a_click_selects_and_says_for_how_long(
    chromium: Chrome,
) -> None:
    screen = at_work()
    screen.look(node("gpu-1"), node("cpu-1", slowness=9.0), node("npu-1"))
    command = "overspill nodes drain cpu-1 --why slow"
    with narrow(chromium):
        async with opened(chromium, screen):
            await shows(chromium, "gpu.nodes", "1")
            code = await asyncio.to_thread(
                chromium.find_element, "xpath", f"//code[contains(., '{command}')]"
            )
            words = await asyncio.to_thread(
                chromium.execute_script,
                "return [...arguments[0].children].map(one => [one.textContent, one.offsetHeight])",
                code,
            )
            assert [word for word, _ in words] == command.split()
            assert max(height for _, height in words) < 30  # no word is on two lines

            async def a_click_selects_it() -> bool:
                await asyncio.to_thread(code.click)
                copied = await ask(chromium, "return getSelection().toString()")
                return " ".join(copied.split()) == command

            # Not at once: a second that passes may move what is clicked at by a line.
            await until(a_click_selects_it, in_time(WITHIN_S), poll_s=0.1)
            spells = await ask(
                chromium,
                "return [...document.querySelectorAll('.since')].map(one => one.textContent)",
            )
            assert spells
            assert all(re.fullmatch(SINCE, one) for one in spells), spells


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_text_stands_out_in_light_and_in_dark(chromium: Chrome, scheme: str) -> None:
    wanted = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", wanted)
    async with opened(chromium, at_work()):
        await shows(chromium, "gpu.nodes", "1")
        paper = await ask(chromium, "return getComputedStyle(document.body).backgroundColor")
        assert (_luminance(paper) < 0.5) == (scheme == "dark")
        pairs = await ask(
            chromium,
            """
            const behind = (one) => {
              const color = getComputedStyle(one).backgroundColor;
              return color === "rgba(0, 0, 0, 0)" ? behind(one.parentElement) : color;
            };
            return [...document.querySelectorAll("main *")]
              .filter((one) => [...one.childNodes].some((n) => n.nodeType === 3 && n.data.trim()))
              .map((one) => [getComputedStyle(one).color, behind(one), one.textContent]);
            """,
        )
        faint = [pair for pair in pairs if _contrast(pair[0], pair[1]) < 4.5]
        assert len(pairs) > 50
        assert faint == []


async def test_a_page_that_hears_nothing_says_so_and_comes_back_by_itself(chromium: Chrome) -> None:
    screen = at_work()

    async def said(word: str) -> None:
        async def holds() -> bool:
            told = await ask(chromium, "return document.querySelector('#conditions').textContent")
            return word in told

        await until(holds, in_time(WITHIN_S), poll_s=0.2)

    async with opened(chromium, screen) as url:
        await said("4 records were no request")
    await said("Control does not answer")
    async with watched(screen), served(screen, port=int(url.rpartition(":")[2])):
        await said("4 records were no request")


@pytest.mark.parametrize(("name", "digest"), VENDORED.items())
def test_the_chart_library_is_the_packages_own(name: str, digest: str) -> None:
    assert hashlib.sha256((FOLDER / "uplot" / name).read_bytes()).hexdigest() == digest
    assert "MIT" in (FOLDER / "uplot" / "LICENSE").read_text()


def _luminance(color: str) -> float:
    parts = json.loads("[" + color[color.index("(") + 1 : -1] + "]")[:3]
    linear = [
        part / 255 / 12.92 if part / 255 <= 0.04045 else ((part / 255 + 0.055) / 1.055) ** 2.4
        for part in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(one: str, other: str) -> float:
    darker, lighter = sorted((_luminance(one), _luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)
