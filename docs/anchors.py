"""What the site needs of its own: anchors that a page sets by `<a id="...">`, and the order of the gallery."""

import re

from docutils import nodes
from sphinx.transforms import SphinxTransform
from sphinx_gallery.sorting import FileNameSortKey

FIELDS = ("topics", "cells", "signatures", "music", "end_members", "faces", "ratings", "air")
QUESTIONS = ("rank", "compare", "stream")


class StoryOrder(FileNameSortKey):
    """Fields first, then questions that every field has; a new story comes last until it has a place here."""

    def __call__(self, filename):
        story = filename.removeprefix("plot_").removesuffix(".py")
        places = (*FIELDS, *QUESTIONS)
        return (places.index(story) if story in places else len(places), filename)


class RawAnchors(SphinxTransform):
    """Anchors in HTML are targets of links, as they are for a reader of the repository."""

    default_priority = 690  # before MyST resolves links within a page

    def apply(self, **kwargs):
        slugs = getattr(self.document, "myst_slugs", None)
        if slugs is None:
            return
        for raw in self.document.findall(nodes.raw):
            for name in re.findall(r'<a id="([^"]+)">', raw.astext()):
                slugs[name] = (raw.line or 0, name, name)
        self.env.metadata[self.env.docname]["myst_slugs"] = slugs


def setup(app):
    app.add_transform(RawAnchors)
    return {"parallel_read_safe": True}
