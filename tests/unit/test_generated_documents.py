"""What is generated from declarations is what the declarations say today."""

from __future__ import annotations

from deploy.generate import ROOT, documents


def test_committed_documents_are_those_the_declarations_make() -> None:
    stale = [str(p) for p, text in documents().items() if (ROOT / p).read_text("utf-8") != text]
    assert stale == [], "run `make generate` and commit what it changes"
