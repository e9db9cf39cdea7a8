"""The page: header with the answer, tabs, and everything that they need inside one file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

from hdrl.base.errors import MissingExtra
from hdrl.report.page.charts import COLOURS
from hdrl.report.page.findings import Findings
from hdrl.report.page.parts import Panel
from hdrl.version import VERSION

SCRIPTS = ("data.js", "gantt.js", "page.js")

POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"
"""Content security policy of the page: it loads nothing from outside."""


def render(
    findings: Findings,
    facts: Sequence[tuple[str, str]],
    panels: Sequence[Panel],
    model: Mapping[str, Any],
    packs: Mapping[str, str],
) -> str:
    """Return the whole page.

    ``model`` is what the browser needs to draw, as JSON; ``packs`` are arrays for it, by the id of their element.
    """
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
        from markupsafe import Markup
    except ImportError:
        raise MissingExtra("jinja2", "report") from None
    environment = Environment(
        loader=PackageLoader("hdrl.report.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    return environment.get_template("page.html").render(
        findings=findings,
        facts=facts,
        panels=panels,
        model=model,
        packs=packs,
        colours=Markup(_declared()),
        policy=POLICY,
        scripts=SCRIPTS,
        version=VERSION,
        asset=lambda name: Markup(_asset(name)),
    )


def _declared() -> str:
    """Return the colours of the page for light and for dark screens, as CSS."""
    light, dark = ("".join(f"--{name}: {pair[face]}; " for name, pair in COLOURS.items()).rstrip() for face in (0, 1))
    return f":root {{ {light} }}\n@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}"


def _asset(name: str) -> str:
    return resources.files("hdrl.report.page").joinpath("assets", name).read_text(encoding="utf-8")
