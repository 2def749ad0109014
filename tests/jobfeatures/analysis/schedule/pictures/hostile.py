"""Names that somebody may have chosen to do harm, or that merely look so."""

HOSTILE = [
    "$x^{2$", "$\\frac{1}{0}$", "<script>alert(1)</script>", "_hidden", "a\"b' onload=\"x", "\u202eevil", "new\nline",
    "日本語", "x" * 300, "%s{title}$title ${modes}", "&amp;&lt;", "]]>", '#21252b url(#p) id="z"', "\x00", "\udc80", " ",
]  # fmt: skip
