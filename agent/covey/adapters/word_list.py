"""The words of codes and verifiers: the English list of BIP-39, 2,048 words that differ in their first four letters."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from covey.core.pairing.invite import CODE_WORDS, Code
from covey.core.pairing.messages import WORD_BITS
from covey.errors import LocalError, MissingPackageError

_PREFIX_LENGTH = 4


def word_list() -> list[str]:
    """Return the list.

    Raises:
        MissingPackageError: the package that holds it is not there.
    """
    try:
        from mnemonic import Mnemonic
    except ModuleNotFoundError as error:
        raise MissingPackageError("pairing with a code", error.name or "mnemonic") from error
    return list(Mnemonic("english").wordlist)


def draw_code(below: Callable[[int], int], number: int) -> Code:
    """Draw the words of a code for a rendezvous; `below(n)` gives an unpredictable number below n."""
    words = word_list()
    return Code(number, tuple(words[below(2**WORD_BITS)] for _ in range(CODE_WORDS)))


def typed_code(text: str) -> Code:
    """Return the code that a person typed: four letters of a word are enough.

    Raises:
        LocalError: it is none, or a word is not in the list.
    """
    code = Code.parse(text)
    by_prefix = {word[:_PREFIX_LENGTH]: word for word in word_list()}
    words = tuple(by_prefix.get(word[:_PREFIX_LENGTH], "") for word in code.words)
    for typed, known in zip(code.words, words, strict=True):
        if not known or not (known.startswith(typed) or typed.startswith(known)):
            raise LocalError(f"'{typed}' is not a word of a code", hint="check the code: its words are English")
    return Code(code.number, words, code.enrolment)


def words_at(places: Sequence[int]) -> list[str]:
    """Return the words that both people compare."""
    words = word_list()
    return [words[place] for place in places]
