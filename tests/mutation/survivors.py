"""Survivors, and their explanations in explained.txt.

An explanation is a sentence on a line of its own. Below it, indented, are the survivors that it
explains: `place: code before => code after`.
"""

from collections.abc import Iterable, Mapping, Sequence

KILLED = ("killed", "timeout")
"""A test notices also a mutant that never ends."""
Result = Mapping[str, str]
"""Name, status and diff of one mutant, as engine.py writes them."""


def module_of(name: str) -> str:
    """Return `core.policy` for mutmut's name of a mutant there."""
    return name.partition(".x_")[0].partition(".xǁ")[0].partition(".")[2]


def described(one: Result) -> str:
    """Return place and change in one line, without line numbers."""
    module = module_of(one["name"])
    function = one["name"].rpartition(".")[2].partition("__mutmut_")[0]
    spelled = function.removeprefix("x_").removeprefix("xǁ").replace("ǁ", ".")
    changed = [line for line in one["diff"].splitlines() if not line.startswith(("---", "+++"))]
    before, after = (
        " ".join(line[1:].strip() for line in changed if line.startswith(sign)) for sign in "-+"
    )
    return f"{module}.{spelled}: {before} => {after}"


def survived(results: Iterable[Result]) -> list[str]:
    """Return each change that no test noticed, once."""
    return sorted({described(one) for one in results if one["status"] not in KILLED})


def read_explained(text: str) -> list[str]:
    """Return the survivors below a sentence. ValueError if one has no sentence."""
    explained: list[str] = []
    sentence = ""
    for line in text.splitlines():
        if not line.startswith(" "):
            sentence = line.strip()
        elif sentence:
            explained.append(line.strip())
        else:
            raise ValueError(f"no sentence explains: {line.strip()}")
    return explained


def complaints(survivors: Sequence[str], explained: Sequence[str]) -> list[str]:
    """Return survivors without explanation, and explanations without survivor."""
    found, known = set(survivors), set(explained)
    return [
        *(f"not explained: {one}" for one in survivors if one not in known),
        *(f"explained, but killed or gone: {one}" for one in explained if one not in found),
    ]
