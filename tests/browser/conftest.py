"""Fixtures: a filled database, `memalchemy inspect` as a process, and pages in a real Chromium."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from sample import fill

pytest.importorskip("playwright", reason="Playwright is not installed: nox -s inspector has it")
pytest.importorskip("langgraph", reason="langgraph-checkpoint is not installed")

from playwright.sync_api import Browser, Page, sync_playwright

from memalchemy import Checkpointer, Database
from waiting import A_WHILE, wait_until

CHROMIUM = os.environ.get("MEMALCHEMY_CHROMIUM") or next(
    filter(None, map(shutil.which, ("chromium-headless-shell", "chromium"))), None
)
"""The shell draws no window that nobody sees, and takes a quarter less time."""
OPTIONS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
WIDE, NARROW = (1280, 820), (400, 820)
TOKEN, OTHER_TOKEN = "a-token-of-the-default-tenant", "a-token-of-another-tenant"
WATCH = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) =>
  window.violations.push(`${event.violatedDirective} ${event.blockedURI}`));
"""


def run_apart(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine in another thread: Playwright's loop is running in this one."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, work).result()


def until(page: Page, expression: str) -> None:
    """Wait until an expression is true on the page.

    Playwright's own `wait_for_function` evaluates text in the page, which its policy forbids.
    """
    end = time.monotonic() + A_WHILE
    while not page.evaluate(expression):
        hangs = time.monotonic() > end  # timed: against a hang
        assert not hangs, f"this did not become true: {expression}"
        page.wait_for_timeout(30)


@dataclass
class Server:
    """A running inspector: where it is, its token, and the database that it reads."""

    origin: str
    token: str
    database: str


def _route(view: str, parameters: Any) -> str:
    return f"/{view}?{urlencode(parameters)}" if parameters else f"/{view}"


@dataclass
class Visit:
    """A page, and what went wrong on it."""

    page: Page
    server: Server
    problems: list[str] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)

    def open(self, view: str, parameters: Any = (), *, ready: str | None = None) -> None:
        """Open a view by its address, as a link would, and wait for what it shows."""
        self.page.goto("about:blank")
        self._go(_route(view, parameters), ready)

    def sign_in(self, view: str, parameters: Any = (), *, ready: str | None = None) -> None:
        """Open a view by an address with the token, as a command prints it."""
        route = quote(_route(view, parameters), safe="")
        self._go(f"token={self.server.token}&to={route}", ready)

    def _go(self, fragment: str, ready: str | None) -> None:
        self.page.goto(f"{self.server.origin}/#{fragment}")
        self.settle()
        if ready is not None:
            self.page.wait_for_selector(ready)

    def settle(self) -> None:
        """Wait until the view has nothing more to load."""
        self.page.wait_for_selector("#main h1, #main .failure")
        until(self.page, "!document.querySelector('#main [aria-busy=true], #main .skeleton')")

    def expect(self, text: str) -> None:
        """Let the page report an error that has *text* in it."""
        self.expected.append(text)

    def check(self) -> None:
        """Assert that nothing attacked, nothing was blocked, and nothing failed."""
        assert self.page.evaluate("window.attacked") is None
        assert self.page.evaluate("window.violations") == []
        unexpected = [
            one for one in self.problems if not any(text in one for text in self.expected)
        ]
        assert unexpected == []


@pytest.fixture(scope="session")
def sample_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A SQLite file with everything that the pages show."""
    url = f"sqlite:///{tmp_path_factory.mktemp('inspector')}/support-agents.db"
    run_apart(fill(url))
    run_apart(save_for_another_tenant(url))
    return url


@pytest.fixture(scope="session")
def server(sample_url: str) -> Iterator[Server]:
    """`memalchemy inspect` in a process of its own."""
    command = [sys.executable, "-m", "memalchemy", "--db", sample_url, "inspect", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            origin, found, token = line.strip().partition("/#token=")
            if found:
                break
        else:
            pytest.fail("the inspector did not start")
        try:
            yield Server(origin, token, sample_url)
        finally:
            process.terminate()
            process.wait(A_WHILE)


@pytest.fixture(scope="session")
def served(sample_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """`memalchemy serve --inspector` in a process of its own, with the tokens of two tenants."""
    tokens = tmp_path_factory.mktemp("tokens") / "tokens"
    tokens.write_text(f"{TOKEN}=default\n{OTHER_TOKEN}=other\n")
    tokens.chmod(0o600)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "memalchemy", "--db", sample_url, "serve", "--inspector"]
    options = ["--port", str(port), "--token-file", str(tokens)]
    origin = f"http://127.0.0.1:{port}/inspector"
    with subprocess.Popen([*command, *options]) as process:
        try:
            wait_for(f"{origin}/", process)
            yield Server(origin, TOKEN, sample_url)
        finally:
            process.terminate()
            process.wait(A_WHILE)


async def save_for_another_tenant(url: str) -> None:
    async with Database(url, tenant="other") as db:
        await Checkpointer(db).save({"messages": []}, "of another tenant")


def wait_for(url: str, process: subprocess.Popen[Any]) -> None:
    """Wait until a server answers, and not longer than it lives."""

    def answers() -> bool:
        assert process.poll() is None, "the server has ended"
        try:
            with urllib.request.urlopen(url, timeout=A_WHILE):
                return True
        except OSError:
            return False

    wait_until(answers, "the server does not answer")


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """Debian's Chromium."""
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed: apt-get install chromium-headless-shell")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        yield browser
        browser.close()


@pytest.fixture
def visit(chromium: Browser, server: Server) -> Iterator[Callable[..., Visit]]:
    """Open pages; each is checked when the test ends."""
    visits: list[Visit] = []

    def opened(
        view: str = "threads",
        parameters: Any = (),
        *,
        ready: str | None = None,
        size: tuple[int, int] = WIDE,
        signed_in: bool = True,
        server: Server = server,
        **more: Any,
    ) -> Visit:
        width, height = size
        context = chromium.new_context(viewport={"width": width, "height": height}, **more)
        context.add_init_script(WATCH)
        page = context.new_page()
        page.set_default_timeout(1000 * A_WHILE)
        made = Visit(page, server)
        visits.append(made)
        watch(made)
        if signed_in:
            made.sign_in(view, parameters, ready=ready)
        return made

    yield opened
    for one in visits:
        one.check()
        one.page.context.close()


def watch(visit: Visit) -> None:
    """Note console errors, exceptions, dialogs, and requests to anywhere else."""
    page, note = visit.page, visit.problems.append
    page.on(
        "console", lambda said: said.type in ("error", "warning") and note(f"console: {said.text}")
    )
    page.on("pageerror", lambda error: note(f"exception: {error}"))
    page.on("popup", lambda _: note("a window was opened"))

    def dialog(shown: Any) -> None:
        note(f"dialog: {shown.message}")
        shown.dismiss()

    def request(sent: Any) -> None:
        if not sent.url.startswith((f"{visit.server.origin}/", "about:", "data:")):
            note(f"request to {sent.url}")

    page.on("dialog", dialog)
    page.on("request", request)


@pytest.fixture(scope="session")
def pictures() -> Path | None:
    """The directory that MEMALCHEMY_PICTURES names, to which the tests write screenshots."""
    given = os.environ.get("MEMALCHEMY_PICTURES")
    if given:
        Path(given).mkdir(parents=True, exist_ok=True)
    return Path(given) if given else None
