"""Writes the Grafana dashboard, built with Grafana's own SDK so that its JSON is as Grafana has it.

The SDK needs Python 3.11; nothing but `make generate` and its tests needs the SDK.
"""

from __future__ import annotations

from string import ascii_uppercase

from grafana_foundation_sdk.builders.common import VizTooltipOptions
from grafana_foundation_sdk.builders.dashboard import Dashboard, DatasourceVariable, Row
from grafana_foundation_sdk.builders.prometheus import Dataquery
from grafana_foundation_sdk.builders.timeseries import Panel as Graph
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import TooltipDisplayMode
from grafana_foundation_sdk.models.dashboard import DataSourceRef

from deploy.observability.panels import ROWS, Panel

SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
WIDTH, HEIGHT = 8, 7
"""Of a panel; a row of the grid has 24 columns."""


def dashboard() -> str:
    """Return the dashboard's JSON."""
    built = (
        Dashboard("Overspill")
        .uid("overspill")
        .tags(["overspill"])
        .refresh("10s")
        .time("now-1h", "now")
        .timezone("browser")
        .with_variable(DatasourceVariable("datasource").label("Prometheus").type("prometheus"))
    )
    for title, panels in ROWS.items():
        built = built.with_row(Row(title))
        for panel in panels:
            built = built.with_panel(_graph(panel))
    return JSONEncoder(sort_keys=True, indent=2).encode(built.build()) + "\n"


def _graph(panel: Panel) -> Graph:
    graph: Graph = (
        Graph()
        .title(panel.title)
        .description(panel.description)
        .unit(panel.unit)
        .span(WIDTH)
        .height(HEIGHT)
        .datasource(SOURCE)
        .tooltip(VizTooltipOptions().mode(TooltipDisplayMode("multi")))
    )
    for letter, (expr, legend) in zip(ascii_uppercase, panel.queries, strict=False):
        query = Dataquery().expr(expr).legend_format(legend).ref_id(letter)
        graph = graph.with_target(query)
    return graph
