"""The lab's findings as one HTML page to pass on. Pure: tables and images in, text out."""

from __future__ import annotations

import base64
import html
from collections.abc import Mapping, Sequence

from lab.tables import Table

_STYLE = (
    "body{font:15px/1.5 system-ui;max-width:70rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse;margin:1rem 0}td,th{border:1px solid #ccc;padding:.2rem .6rem;"
    "text-align:left}img{max-width:100%}"
)


def page(
    accepted: Sequence[Table], experiments: Sequence[Table], images: Mapping[str, bytes]
) -> str:
    """Return one page that needs no other file: what is asked, plots as PNG, experiments."""
    parts = [_section(table) for table in accepted]
    parts += [_image(name, image) for name, image in images.items()]
    parts += [_section(table) for table in experiments]
    return (
        f"<!doctype html><meta charset=utf-8><title>Overspill: what routing saves</title>"
        f"<style>{_STYLE}</style><h1>Overspill: what routing saves</h1>{''.join(parts)}"
    )


def _section(table: Table) -> str:
    cells = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
        for row in table.rows
    )
    head = "".join(f"<th>{html.escape(column)}</th>" for column in table.columns)
    return (
        f"<h2>{html.escape(table.name)}</h2><p>{html.escape(table.claim)}</p>"
        f"<table><tr>{head}</tr>{cells}</table>"
    )


def _image(name: str, image: bytes) -> str:
    return f'<img alt="{name}" src="data:image/png;base64,{base64.b64encode(image).decode()}">'
