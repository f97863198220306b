"""What `--json` prints: one document on one line of standard output."""

from __future__ import annotations

import click


def print_document(document: object) -> None:
    """Print a document as JSON."""
    import orjson  # help needs none of it

    click.echo(orjson.dumps(document))
