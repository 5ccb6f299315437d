"""Internal links of a built site lead somewhere; external ones are listed. `python docs/check.py docs/_build/html`"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The links and the anchors of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs) -> None:
        held = dict(attrs)
        self.anchors |= {held[key] for key in ("id", "name") if held.get(key)}
        self.links += [held[key] for key in ("href", "src") if held.get(key)]


def main(root: Path) -> int:
    pages = {
        path.resolve(): Page(path)
        for path in sorted(root.rglob("*.html"))
        if not {"_downloads", "_static"} & {*path.parts}
    }
    broken, outside = [], set()
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme == "data":
                continue
            if parts.scheme or parts.netloc:
                outside.add(link)
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists():
                broken.append(f"{path.relative_to(root.resolve())}: {link}")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                broken.append(f"{path.relative_to(root.resolve())}: no anchor for {link}")
    print(f"{len(pages)} pages, {len(broken)} broken internal links, {len(outside)} external ones:")
    print(*(f"  {link}" for link in sorted(outside)), sep="\n")
    print(*broken, sep="\n", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
