"""Names that try to be more than names."""

from __future__ import annotations

HOSTILE = [
    "</script><script>alert(1)</script>",
    "[click](http://example.com) <img src=x onerror=alert(1)> @someone #1",
    "\x1b[31mred\x1b[0m \x1b]0;title\x07",
    "line\n::error file=a::forged\r\n##[error]forged",
    "void gemm<" + "int, " * 20_000 + "float>",
    "=cmd|' /C calc'!A0",
    "| pipe ` tick \\ back \u202e rtl \u0000 nul \ufffe",
    "</style><svg onload=alert(1)> ]]> --> &amp; \u2028",
]
