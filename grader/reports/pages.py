"""What all pages in HTML share: how templates are read, and which characters a page may hold."""

from __future__ import annotations

import re

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

# Controls and noncharacters that a page must not hold (https://html.spec.whatwg.org/multipage/parsing.html).
_FORBIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef"
    + "".join(chr(plane << 16 | last) for plane in range(17) for last in (0xFFFE, 0xFFFF))
    + "]"
)


def environment() -> Environment:
    """The templates of the package. Every text is escaped, and a name that is not given is an error."""
    made = Environment(
        loader=PackageLoader("grader.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["code"] = code
    return made


def code(text: str) -> Markup:
    """A sentence in which words in backticks are set as code; everything is escaped."""
    return Markup(re.sub(r"`([^`\n]+)`", r"<code>\1</code>", str(escape(text))))


def clean(text: str) -> str:
    """A page with every character that it must not hold replaced by U+FFFD."""
    return _FORBIDDEN.sub("\ufffd", text)
