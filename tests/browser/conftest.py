"""Browsers and pages for the tests."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import minigpt
from minigpt.runs.run import Run
from tests.browser.chromium import Chromium
from tests.browser.firefox import Firefox
from tests.browser.programs import npm_packages
from tests.browser.recorder import Recorder
from tests.browser.reports import drawn, write_reports
from tests.browser.runs import write_page, write_run
from tests.browser.tabs import Browser, Tab
from tests.targets.gguf.models import GPT_SHAPES, PAIR_SHAPES, Built, build


class Exported(NamedTuple):
    """A model, its run and its page."""

    built: Built
    run: Run
    page: Path

    def portable(self) -> Any:
        """Returns the same model as a portable file."""
        path = self.page.with_suffix(".gguf")
        if not path.exists():
            minigpt.export_run(self.run, "gguf", path)
        return minigpt.load_portable(path)


@pytest.fixture(scope="session")
def recorder() -> Iterator[Recorder]:
    recorder = Recorder()
    yield recorder
    recorder.close()


@pytest.fixture(scope="session")
def chromium(recorder: Recorder) -> Iterator[Browser]:
    browser = Chromium(recorder.address)
    yield browser
    browser.close()


@pytest.fixture(scope="session")
def firefox(recorder: Recorder) -> Iterator[Browser]:
    browser = Firefox(recorder.address)
    yield browser
    browser.close()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test runs in Chromium, one with the mark `both` in Firefox, too."""
    if "browser" in metafunc.fixturenames:
        in_both = metafunc.definition.get_closest_marker("both")
        names = ["chromium", "firefox"] if in_both else ["chromium"]
        metafunc.parametrize("browser", names, indirect=True)


@pytest.fixture
def browser(request: pytest.FixtureRequest) -> Browser:
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="session")
def gpt(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """A GPT with three epochs; its settings have a stop string."""
    built = build(GPT_SHAPES["modern"])
    path = tmp_path_factory.mktemp("gpt") / "tiny"
    sampling = {"max_new_tokens": 30, "temperature": 0.9, "top_k": 0, "seed": 5, "stop": ["hill"]}
    run = write_run(path, built, epochs=3, kept_epochs=3, sampling=sampling)
    return Exported(built, run, write_page(run))


@pytest.fixture(scope="session")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """An encoder-decoder."""
    built = build({"kind": "encoder_decoder", **PAIR_SHAPES["paper"]}, spread=0.7)
    run = write_run(tmp_path_factory.mktemp("pairs") / "tiny-pairs", built)
    return Exported(built, run, write_page(run))


@pytest.fixture(scope="session")
def dialogues(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """A GPT of dialogues with two epochs."""
    built = build(GPT_SHAPES["modern"], max_len=96, chat=True)
    path = tmp_path_factory.mktemp("dialogues") / "tiny-chat"
    questions = ["Where is Ana?", "Who sat on the hill?"]
    sampling = {"max_new_tokens": 12, "prompts": [""], "seed": 5}
    run = write_run(path, built, kept_epochs=2, prompts=questions, sampling=sampling)
    return Exported(built, run, write_page(run))


@pytest.fixture(scope="session")
def axe() -> str:
    """The source of axe-core."""
    return (npm_packages() / "axe-core" / "axe.min.js").read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The paths of reports, by name."""
    return write_reports(tmp_path_factory.mktemp("reports"))


@pytest.fixture(scope="module")
def tabs() -> Iterator[dict[str, Tab]]:
    """Open pages of the usual report, by the name of the browser."""
    tabs: dict[str, Tab] = {}
    yield tabs
    for tab in tabs.values():
        tab.close()


@pytest.fixture
def usual(browser: Browser, tabs: dict[str, Tab], reports: dict[str, Path]) -> Tab:
    """The usual report, its sections open, as the test before has left it."""
    if browser.name not in tabs:
        tabs[browser.name] = drawn(browser.open(reports["usual"]))
        tabs[browser.name].open_parts()
    return tabs[browser.name]


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Callable[..., Tab]]:
    """Opens a page, and closes it after the test."""
    tabs = []

    def open_page(page: Path, **options: Any) -> Tab:
        tab = browser.open(page, **options)
        tabs.append(tab)
        return tab

    yield open_page
    for tab in tabs:
        tab.close()


@pytest.fixture
def tab(open_page: Callable[..., Tab], gpt: Exported) -> Tab:
    """The page of the GPT, ready."""
    tab = open_page(gpt.page)
    tab.evaluate("() => minigpt.ready")
    return tab
