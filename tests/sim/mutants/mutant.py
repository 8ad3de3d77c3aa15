"""A seeded defect."""

from pathlib import Path

from msgspec import Struct


class Mutant(Struct, frozen=True, kw_only=True):
    """One small change of one file. `old` occurs there exactly once."""

    name: str
    story: str
    path: str
    """Path below the package."""
    old: str
    new: str

    def apply(self, package: Path) -> None:
        """Change the file in a copy of the package. ValueError unless `old` occurs exactly once."""
        file = package / self.path
        text = file.read_text()
        if text.count(self.old) != 1:
            raise ValueError(
                f"{self.name}: {self.path} holds its text {text.count(self.old)} times"
            )
        file.write_text(text.replace(self.old, self.new))
