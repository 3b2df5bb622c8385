"""Sentences in the reader's language.

As in the program, the first of LC_ALL, LC_MESSAGES and LANG that is set decides, and English is
used if its language is not supported. `use` sets another language. The texts are in `messages.py`.
"""

import os
import re
import unicodedata

from .messages import MESSAGES

LANGUAGES = ("en", "zh", "ja", "de")
_chosen = None


def language():
    """The code of the language that reports are written in."""
    if _chosen is not None:
        return _chosen
    names = ("LC_ALL", "LC_MESSAGES", "LANG")
    locale = next(filter(None, map(os.environ.get, names)), "")
    code = re.split(r"[_\-.@]", locale)[0].lower()
    return code if code in LANGUAGES else "en"


def use(code):
    """Sets the language of this process; `None` returns to the locale's."""
    global _chosen
    if code is not None and code not in LANGUAGES:
        raise ValueError(f"the languages are {', '.join(LANGUAGES)}, not {code!r}")
    _chosen = code


def say(name, /, **gaps):
    """The message `name` with its gaps filled."""
    return MESSAGES[name][LANGUAGES.index(language())].format(**gaps)


def named(prefix, word):
    """A kind or a phase in the reader's language; a word that is not ours stays as it is."""
    key = f"{prefix} {word}"
    return say(key) if key in MESSAGES else word


def columns(text):
    """The width of `text` in a terminal, where Chinese and Japanese characters take two columns."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


def decimal(text):
    """A number as the language writes it."""
    return text.replace(".", ",") if language() == "de" else text
