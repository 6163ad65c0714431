"""Names of C that are taken: by the language, its library, and the exported files themselves."""

from __future__ import annotations

import re
from functools import cache

from .template import template

_LANGUAGE = """
    auto break case char const continue default do double else enum extern float for goto if inline int long register restrict return
    short signed sizeof static struct switch typedef union unsigned void volatile while alignas alignof atomic bool complex generic
    imaginary noreturn static_assert thread_local true false nullptr constexpr typeof asm fortran
    and bitand bitor catch class compl concept const_cast consteval constinit decltype delete dynamic_cast explicit export friend
    mutable namespace new noexcept not operator or private protected public reinterpret_cast requires static_cast template this
    throw try typeid typename using virtual wchar_t xor linux unix main
"""
_MATH = """
    acos asin atan atan2 cos sin tan cosh sinh tanh acosh asinh atanh exp exp2 expm1 log log10 log1p log2 logb ilogb frexp ldexp modf
    pow sqrt cbrt hypot erf erfc tgamma lgamma ceil floor trunc round lround llround rint lrint llrint nearbyint fmod remainder remquo
    copysign nan nextafter nexttoward fdim fmax fmin fma fabs scalbn scalbln fpclassify isfinite isinf isnan isnormal signbit isgreater
    isless isunordered j0 j1 jn y0 y1 yn gamma drem finite significand scalb
"""
_STDIO = """
    stdin stdout stderr remove rename tmpfile tmpnam fclose fflush fopen freopen setbuf setvbuf fprintf fscanf printf scanf snprintf
    sprintf sscanf vfprintf vprintf vsprintf fgetc fgets fputc fputs getc getchar gets putc putchar puts ungetc fread fwrite fgetpos
    fseek fsetpos ftell rewind clearerr feof ferror perror size_t fpos_t abs labs exit abort malloc free memcpy memset memmove
"""
_TABLES = "above above_first run_tape"  # written by Python, not in a template


@cache
def _words() -> frozenset[str]:
    """Every word of the templates and of what they include, without comments."""
    found = {word + end for word in _MATH.split() for end in ("", "f", "l")}
    found |= {*_LANGUAGE.split(), *_STDIO.split(), *_TABLES.split()}
    for name in ("header.h", "step.c", "control.c", "main.c", "vectors.h"):
        text = re.sub(r"/\*.*?\*/|\"[^\"\n]*\"|//@.*?$", " ", template(name), flags=re.DOTALL | re.MULTILINE)
        found |= set(re.findall(r"(?<![@\w])[A-Za-z_]\w*", text))
    return frozenset(found)


@cache
def _endings() -> frozenset[str]:
    """What follows the name of a model in the names of types and functions."""
    return frozenset(re.findall(r"@n@(_\w+)", template("header.h")))


def is_taken(name: str) -> bool:
    """Whether a type of this name, or a function that begins with it, would clash with another name of the exported files."""
    return any(word in _words() for word in (name, *(name + ending for ending in _endings())))
