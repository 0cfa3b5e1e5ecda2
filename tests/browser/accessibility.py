"""What axe-core objects to, and what is wider than the window."""

from tests.browser.tabs import Tab


def violations(tab: Tab, axe: str) -> list[str]:
    """Returns a line for each element that axe-core objects to."""
    # The protocol evaluates it, whatever the policy of the page is.
    tab.evaluate(f"() => {{ if (!globalThis.axe) {{ {axe} }} }}")
    return tab.evaluate(
        """async () => {
          const { violations } = await axe.run(document, { resultTypes: ["violations"] });
          return violations.flatMap(({ id, nodes }) =>
            nodes.map(({ target, failureSummary }) => `${id}: ${target}: ${failureSummary}`));
        }"""
    )


def overflow(tab: Tab) -> list[str]:
    """Returns the elements that make the page wider than the window."""
    return tab.evaluate(
        """() => {
          const page = document.documentElement;
          if (page.scrollWidth <= page.clientWidth) return [];
          const wide = Array.from(document.querySelectorAll("body *"))
            .filter((element) => element.getBoundingClientRect().right > page.clientWidth + 1);
          const names = wide.map((element) => `${element.localName}.${element.className}`);
          return [`the page: ${page.scrollWidth}`, ...names.slice(0, 9)];
        }"""
    )
