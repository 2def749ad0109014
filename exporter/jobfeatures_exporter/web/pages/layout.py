"""Makes the frame of every page: head, navigation, footer. Pure."""

from __future__ import annotations

from jobfeatures import __version__
from jobfeatures_exporter.web.pages import has_documentation
from jobfeatures_exporter.web.pages.markup import Child, join, tag

LINKS = (("metrics", "Metrics"), ("-/healthy", "Health"), ("-/ready", "Readiness"))
EXPLAINED_AT, EXPLAINED = "docs/page.md", "About this page"


def page(
    title: str,
    head: Child,
    *content: Child,
    links: tuple[tuple[str, str], ...] = (),
    base: str = "",
    kind: str | None = None,
) -> str:
    """Return a whole page; `head` is shown next to the title.

    `links` (address, text) are added to the navigation; those without an address are left out. `base` is the
    relative URL of the front page, empty on that page itself. `kind` is a CSS class of the whole page.
    """
    every = [(base + href, text) for href, text in LINKS]
    every += [(base, "All jobs")] if base else []
    found = [tag("li", tag("a", text, href=href)) for href, text in (*every, *links) if href]
    navigation = tag("nav", tag("ul", *found), aria_label="Other pages")
    explained = tag("a", EXPLAINED, href=base + EXPLAINED_AT) if has_documentation() else None
    body = tag(
        "body",
        tag("a", "Skip to content", href="#content", class_="skip"),
        tag("header", tag("div", tag("h1", title), head, class_="title"), navigation),
        tag("main", *content, id="content", tabindex=-1),
        tag(
            "footer",
            tag("p", f"jobfeatures-exporter {__version__}. ", explained),
            tag("p", id="refresh"),
        ),
    )
    document = tag(
        "html",
        tag(
            "head",
            tag("meta", charset="utf-8"),
            tag("title", join(title, " · jobs")),
            tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
            tag("meta", name="color-scheme", content="light dark"),
            tag("meta", name="robots", content="noindex"),
            tag("link", rel="icon", href=f"{base}page.svg", type="image/svg+xml"),
            tag("link", rel="stylesheet", href=f"{base}page.css"),
            tag("script", src=f"{base}page.js", defer=True),
        ),
        body,
        lang="en",
        class_=kind,
    )
    return f"<!DOCTYPE html>\n{document}\n"
