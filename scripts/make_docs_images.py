"""Draws the pictures of docs/images from one run, in the system's Chromium.

    python scripts/make_docs_images.py RUN

Needs the extra `browser`. `images.json` records the run and the digest of each picture.
"""

import hashlib
import io
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Page, sync_playwright

import minigpt
from minigpt.insight.report.report import write_report

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
WIDTH, HEIGHT = 1000, 760
# Milliseconds of a state of training in the animation, and of each of its last two pictures.
STATE_MS, LAST_MS = 500, 1500
# What the page writes: the pictures are the same each time.
ADDRESS = "#prompt=Once+upon+a+time&seed=1"
# Tokens with a probability from 5 to 20%.
UNSURE = "#text-tokens .p2"


def picture(page: Page, selector: str | None = None) -> bytes:
    """Returns a PNG of the window, or of an element."""
    page.wait_for_timeout(500)
    return page.locator(selector).screenshot() if selector else page.screenshot()


def wait(page: Page) -> None:
    """Waits until the text of the address is written."""
    page.evaluate("() => minigpt.ready")
    page.wait_for_function(
        "() => document.querySelector('#text-tokens .token') && document.getElementById('stop').hidden"
    )


def animation(page: Page) -> bytes:
    """Returns a WebP: what each state of training writes, then when each token was learned."""
    wait(page)
    page.locator("#training").evaluate("(node) => node.scrollIntoView()")
    last = int(page.get_attribute("#snapshot", "max") or 0)
    frames, durations = [], []
    for index in range(last + 1):
        page.evaluate(
            """(index) => {
              const slider = document.getElementById("snapshot");
              slider.value = String(index);
              slider.dispatchEvent(new Event("input"));
            }""",
            index,
        )
        page.wait_for_function(
            "() => /^Step/.test(document.querySelector('#replay [role=status]').textContent)"
        )
        page.wait_for_timeout(1500)
        frames.append(picture(page))
        durations.append(STATE_MS)
    page.check("#learned")
    page.wait_for_selector(".learned [data-step]")
    frames.append(picture(page))
    page.locator(".learned [data-step]").nth(12).hover()
    frames.append(picture(page))
    durations += [LAST_MS, LAST_MS]
    first, *others = [Image.open(io.BytesIO(frame)).convert("RGB") for frame in frames]
    file = io.BytesIO()
    options: dict[str, Any] = {"quality": 70, "method": 6, "loop": 0}
    first.save(file, "WEBP", save_all=True, append_images=others, duration=durations, **options)
    return file.getvalue()


def main() -> None:
    run = minigpt.Run(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page_file, report_file = Path(folder) / "page.html", Path(folder) / "report.html"
        minigpt.export_run(run, "html", page_file)
        write_report(run, report_file)
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        images = {}
        for suffix, scheme in (("", "light"), ("-dark", "dark")):

            def opened(file: Path, scheme: Any = scheme) -> Page:
                page = browser.new_page(
                    viewport={"width": WIDTH, "height": HEIGHT},
                    color_scheme=scheme,
                    reduced_motion="reduce",
                )
                page.goto(file.as_uri() + ADDRESS)
                return page

            page = opened(page_file)
            wait(page)
            page.locator(UNSURE).first.click()
            images[f"page{suffix}.png"] = picture(page)
            page.click("#look-inside")
            page.wait_for_selector("#inside-content *")
            images[f"inside{suffix}.png"] = picture(page, "#inside")
            images[f"report{suffix}.png"] = picture(opened(report_file))
        images["training.webp"] = animation(opened(page_file, "light"))
        browser.close()
    facts = {
        "run": run.path.name,
        "corpus": run.corpus["fingerprint"],
    }
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in images.items()}
    for name, content in images.items():
        (IMAGES / name).write_bytes(content)
    record = json.dumps({**facts, "sha256": digests}, indent=2)
    (IMAGES / "images.json").write_text(record + "\n", encoding="utf-8")
    for name, content in images.items():
        print(f"{name}: {len(content):,} bytes")


if __name__ == "__main__":
    main()
