"""The parts of a folder: how it is divided among members, how a part is written down and read again. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from .escaping import show

_LOOSE = " (only the files directly in it)"
_NAMED = 12
"""Files directly in a folder are named one by one up to this many."""
_SHARE = 0.4
"""A folder with more than this share of all files is divided."""
_ROUNDS = 100
_ROOTS = 6


@dataclass(frozen=True, slots=True)
class Part:
    """What one member surveys. An item is a folder with a slash behind it, a file, or the loose files of a folder."""

    items: tuple[str, ...]
    files: int

    def describe(self, most: int = 4) -> str:
        """The part in one line."""
        shown = ", ".join(show(item) for item in self.items[:most])
        shown = " ".join(shown.split())
        return shown + (f" and {len(self.items) - most} more" if len(self.items) > most else "")


class Selection:
    """Tells which paths belong to the items of a part, and where to look for them."""

    def __init__(self, items: Iterable[str]) -> None:
        self._folders: set[str] = set()
        self._loose: set[str] = set()
        self._files: set[str] = set()
        for item in items:
            if item.endswith("/" + _LOOSE):
                self._loose.add(_plain(item.removesuffix(_LOOSE)))
            elif item.endswith("/"):
                self._folders.add(_plain(item))
            else:
                self._files.add(item)

    def __contains__(self, path: str) -> bool:
        parent = path.rpartition("/")[0]
        if path in self._files or parent in self._loose:
            return True
        while parent:
            if parent in self._folders:
                return True
            parent = parent.rpartition("/")[0]
        return "" in self._folders

    def roots(self) -> list[str]:
        """A few folders that together hold the whole part, none inside another."""
        roots = self._folders | self._loose | {path.rpartition("/")[0] for path in self._files}
        while True:
            roots = {root for root in roots if not any(above in roots for above in _above(root))}
            if len(roots) <= _ROOTS:
                return sorted(root or "." for root in roots)
            deepest = max(root.count("/") for root in roots)
            roots = {root.rpartition("/")[0] if root.count("/") == deepest else root for root in roots}


@lru_cache(maxsize=8)
def divide(paths: tuple[str, ...], members: int) -> tuple[Part, ...]:
    """Divide files among at most so many members, by number, along folders as high up as that gives equal parts."""
    tree = _Tree(paths)
    units = tree.open("")
    for _ in range(_ROUNDS):
        units.sort(key=lambda unit: (-unit.files, unit.items))
        splittable = next((unit for unit in units if tree.can_open(unit)), None)
        if splittable is None or (len(units) >= members and splittable.files <= len(paths) * _SHARE):
            break
        units.remove(splittable)
        units += tree.open_unit(splittable, members)
    shares: list[list[Part]] = [[] for _ in range(min(members, len(units)))]
    for unit in sorted(units, key=lambda unit: (-unit.files, unit.items)):
        min(shares, key=lambda share: sum(other.files for other in share)).append(unit)
    return tuple(
        Part(tree.named(item for unit in share for item in unit.items), sum(unit.files for unit in share))
        for share in shares
    )


class _Tree:
    """How many files lie in and below each folder; the workspace is the folder with the empty name."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._below: Counter[str] = Counter()
        self._loose: dict[str, list[str]] = defaultdict(list)
        self._folders: dict[str, dict[str, None]] = defaultdict(dict)
        for path in paths:
            child, parent = path, path.rpartition("/")[0]
            self._loose[parent].append(path)
            while child:
                self._below[parent] += 1
                if child != path:
                    self._folders[parent][child] = None
                child, parent = parent, parent.rpartition("/")[0]

    def open(self, folder: str) -> list[Part]:
        """The folders in a folder, each a part, and the files directly in it, together one."""
        units = [Part((f"{child}/",), self._below[child]) for child in self._folders[folder]]
        if loose := self._loose[folder]:
            units.append(Part((f"{folder or '.'}/{_LOOSE}",), len(loose)))
        return units

    def can_open(self, unit: Part) -> bool:
        return len(unit.items) == 1 and unit.items[0].endswith(("/", _LOOSE)) and unit.files > 1

    def open_unit(self, unit: Part, pieces: int) -> list[Part]:
        """A folder as in :meth:`open`; loose files in so many runs of neighbours."""
        (item,) = unit.items
        if item.endswith("/"):
            return self.open(_plain(item))
        files = self._loose[_plain(item.removesuffix(_LOOSE))]
        bounds = [len(files) * piece // pieces for piece in range(pieces + 1)]
        runs = [files[start:end] for start, end in pairwise(bounds) if end > start]
        return [Part(tuple(run), len(run)) for run in runs]

    def named(self, items: Iterable[str]) -> tuple[str, ...]:
        """The items in order, few loose files by their names."""
        result: list[str] = []
        for item in items:
            loose = self._loose[_plain(item.removesuffix(_LOOSE))] if item.endswith("/" + _LOOSE) else []
            result += loose if 0 < len(loose) <= _NAMED else [item]
        return tuple(sorted(result))


def _plain(folder: str) -> str:
    return folder.rstrip("/") if folder != "./" else ""


def _above(folder: str) -> Iterable[str]:
    while folder:
        folder = folder.rpartition("/")[0]
        yield folder
