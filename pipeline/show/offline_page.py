"""Pages that open offline: their scripts, their data, and the policy that lets no other script run."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from . import units
from .plot_parts import Plot
from .tables.printers import chip, to_html

_HERE = files(__package__)


def render_page(template: str, plots: Sequence[Plot], **values: Any) -> str:
    """Return a page with plots as text. `values` are what its template names, beside `plots` and `units`."""
    drawing = (_HERE / "report.js").read_text(encoding="utf-8")
    data = {plot.key: {"data": plot.data, "layout": plot.layout} for plot in plots}
    return (
        _templates()
        .get_template(template)
        .render(
            **values,
            plots=plots,
            plot_data=Markup(inert_json(data)),  # noqa: S704  (nothing in it can end the element)
            plotly=packed_plotly() if plots else "",
            drawing=Markup(drawing),  # noqa: S704  (our own)
            style=Markup((_HERE / "report.css").read_text(encoding="utf-8")),  # noqa: S704  (our own)
            policy=policy((plotly_script(), drawing) if plots else ()),
        )
    )


def render_part(template: str, **values: Any) -> str:
    """Return a template that is no page of its own as text."""
    return _templates().get_template(template).render(**values)


@cache
def _templates() -> Environment:
    loader = FunctionLoader(lambda name: (_HERE / name).read_text(encoding="utf-8"))
    env = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    env.globals |= {"units": units, "chip": chip, "to_html": to_html}
    return env


@cache
def plotly_script() -> str:
    """Return Plotly's own script, from its Python package."""
    return (files("plotly") / "package_data" / "plotly.min.js").read_text(encoding="utf-8")


@cache
def packed_plotly() -> str:
    """Return it as gzip in base64, which the page unpacks: a third of the size."""
    return base64.b64encode(gzip.compress(plotly_script().encode(), mtime=0)).decode()


def policy(scripts: tuple[str, ...]) -> str:
    """Return the page's content policy: run these scripts, style itself, draw its own pictures, fetch nothing."""
    digests = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests) or "'none'"
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def inert_json(data: Mapping[str, Any]) -> str:
    """Return JSON that may stand in a script element: without a character that could end it."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
