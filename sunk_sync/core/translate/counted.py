"""A count with its noun, as a person writes it."""


def counted(number: int, one: str, many: str = "") -> str:
    """Return `1 Pod` or `2 Pods`. `many`: the words for other numbers, if an s does not do."""
    return f"{number} {one if number == 1 else many or f'{one}s'}"
