"""What survived, and whether each survivor is explained in explained.txt.

An explanation is a sentence on a line of its own; under it, indented, stand the survivors for which
it holds: `place: as it was => as it became`.
"""

from collections.abc import Iterable, Mapping, Sequence

KILLED = ("killed", "timeout")
"""What never ends is noticed by whoever waits for it."""
Result = Mapping[str, str]
"""`name`, `status` and `diff` of one mutant, as engine.py writes them."""


def module_of(name: str) -> str:
    """`rules.drain` of mutmut's name for a mutant there."""
    return name.partition(".x_")[0].partition(".xǁ")[0].partition(".")[2]


def described(one: Result) -> str:
    """Place and change in one line, the same wherever in its file the place stands."""
    module = module_of(one["name"])
    function = one["name"].rpartition(".")[2].partition("__mutmut_")[0]
    spelled = function.removeprefix("x_").removeprefix("xǁ").replace("ǁ", ".")
    changed = [line for line in one["diff"].splitlines() if not line.startswith(("---", "+++"))]
    before, after = (
        " ".join(line[1:].strip() for line in changed if line.startswith(sign)) for sign in "-+"
    )
    return f"{module}.{spelled}: {before} => {after}"


def survived(results: Iterable[Result]) -> list[str]:
    """Each change that nothing noticed, once."""
    return sorted({described(one) for one in results if one["status"] not in KILLED})


def read_explained(text: str) -> list[str]:
    """The survivors that stand under a sentence; ValueError for one that stands under none."""
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
    """Survivors that nobody explained, and explanations of what is killed or is no more."""
    found, known = set(survivors), set(explained)
    return [
        *(f"not explained: {one}" for one in survivors if one not in known),
        *(f"explained, but killed or gone: {one}" for one in explained if one not in found),
    ]
