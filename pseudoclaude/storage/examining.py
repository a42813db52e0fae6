"""What is wrong with the files of one marked log, and the mending that loses nothing."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator
from contextlib import suppress

from ..errors import StorageError
from .archives import ARCHIVE, Archive, firsts_in, segment_name
from .base import Finding, Flaw
from .chain import LOCK
from .intents import remove_draft
from .keys import Root
from .lines import index_of, lines_from, seal_of
from .marks import Marks, MarksFile, Range
from .system import CREATE, READ, WRITE, storage_error

MARKS = "read.jsonl"
_HARMLESS = "Nothing need be done: readers leave it out."


class Examination:
    """One look at all files of a log; each step adds to :attr:`findings`."""

    def __init__(self, root: Root, path: str) -> None:
        self._root = root
        self._system = root.system
        self._path = path
        self._archive = Archive(root.system, path)
        self.findings: list[Finding] = []
        self.gaps: list[tuple[Range, str]] = []
        """Indices whose records cannot be read, and the file in which they are missing."""
        self.end = 0
        """The index behind the last record or seal."""

    def files(self, *, mend: bool) -> None:
        """Look at the names, kinds and modes of the files.

        :raises FileNotFoundError: when there is no such folder.
        """
        names = sorted(self._system.listdir(self._path))
        self._mode(self._path, 0o700, mend=mend)
        for name in names:
            path = f"{self._path}/{name}"
            mode = self._system.stat(path).st_mode
            if stat.S_ISDIR(mode) and name == ARCHIVE:
                self._mode(path, 0o700, mend=mend)
            elif not stat.S_ISREG(mode):
                kind = "a symbolic link" if stat.S_ISLNK(mode) else "no regular file"
                self._add(Flaw.NOT_A_FILE, path, f"this is {kind}", "It is never followed: remove it yourself.")
            elif name.startswith(".") and name.endswith(".tmp"):
                continue  # a draft of the marks
            elif name in (LOCK, MARKS) or firsts_in([name]):
                self._mode(path, 0o600, mend=mend)
            else:
                self._add(Flaw.STRAY_FILE, path, "no file of a mailbox has this name", "It disturbs nobody.")
        if LOCK not in names:
            self._lock(mend=mend)
        for draft in self._archive.drafts():
            done = mend and self._try(lambda draft=draft: remove_draft(self._root, draft))  # type: ignore[misc]
            self._stray(draft, mended=done)

    def drafts_of_marks(self, *, mend: bool) -> None:
        """Look for what a killed writer left of the marks; with ``mend`` under the log's lock."""
        draft = f"{self._path}/.{MARKS}.tmp"
        with suppress(FileNotFoundError):
            self._system.stat(draft)
            done = mend and self._try(lambda: self._unlink(draft))
            self._stray(draft, mended=done)

    def records(self) -> None:
        """Read every segment, archived ones first."""
        archived, live = self._archive.firsts(), firsts_in(self._system.listdir(self._path))
        for first in sorted({*archived, *live}):
            path = f"{self._path}/{segment_name(first)}"
            if first in archived and first in live:
                self._add(Flaw.STRAY_FILE, path, "it is in the archive, too", "The next archiving removes it.")
            elif first in archived:
                path = self._archive.path_of(first)
                if not self._archive.is_whole(first):
                    self._add(Flaw.UNREADABLE, path, "parts of it cannot be unpacked", "Restore it from a copy.")
            self._lose(path, first)
            try:
                self._segment(path, self._lines(path, first, packed=first not in live))
            except (OSError, StorageError) as error:
                why = error if isinstance(error, StorageError) else storage_error(path, error)
                self._add(Flaw.UNREADABLE, path, str(why), why.remedy)

    def marks(self, file: MarksFile, where: str) -> Marks:
        """Compare the marks with what is there."""
        try:
            marks = file.read()
        except (OSError, StorageError) as error:
            self._add(Flaw.UNREADABLE_MARKS, where, str(error), "All mail counts as unread: move the file away.")
            return Marks()
        if file.damaged:
            self._add(Flaw.UNREADABLE_MARKS, where, "no line of it can be read", "All mail counts as unread.")
        if marks.bound > self.end:
            what = f"it marks records up to {marks.bound - 1}, and the last one is {self.end - 1}"
            remedy = f"Records were lost, as by a power cut; the next one gets index {marks.bound}."
            self._add(Flaw.MARKS_BEYOND_END, where, what, remedy, start=self.end, end=marks.bound)
        return marks

    def lost(self, marks: Marks, *, mended: bool) -> None:
        """Tell of the gaps, now that it is known which are marked."""
        for (start, end), where in self.gaps:
            known = all(index in marks for index in range(start, end))
            remedy = "They are marked as read: whoever reads goes on behind them."
            if not known and not mended:
                remedy = "They count as unread until something behind them is marked."
            what = "records cannot be read" if end - start > 1 else "a record cannot be read"
            self._add(Flaw.LOST_RECORDS, where, what, remedy, start=start, end=end, mended=mended and not known)

    def _segment(self, path: str, lines: Iterator[tuple[int, bytes]]) -> None:
        torn = 0
        for _, line in lines:
            sealed, index = seal_of(line), index_of(line)
            following = sealed if sealed is not None else index
            if following is None:
                torn += 1
                continue
            if following < self.end:
                continue
            if following == self.end and torn:
                what = f"{torn} torn pieces before record {following}, left by writers that were killed"
                self._add(Flaw.TORN_PIECE, path, what, _HARMLESS)
            torn = 0
            self._lose(path, following)
            self.end = following + (sealed is None)
        if torn:
            self._add(Flaw.TORN_PIECE, path, f"{torn} torn pieces at its end", _HARMLESS)

    def _lose(self, path: str, following: int) -> None:
        if following > self.end:
            self.gaps.append(((self.end, following), path))
            self.end = following

    def _lines(self, path: str, first: int, *, packed: bool) -> Iterator[tuple[int, bytes]]:
        if packed:
            return self._archive.lines(first, 0)
        return lines_from(self._system, self._system.open(path, READ), 0)

    def _lock(self, *, mend: bool) -> None:
        path = f"{self._path}/{LOCK}"
        users = self._system.openers(path)
        what = "the lock file is missing, so the mailbox counts as removed"
        if users == []:
            done = mend and self._try(lambda: self._system.open(path, WRITE | CREATE))
            self._add(Flaw.NO_LOCK_FILE, path, what, "An empty file of this name brings it back.", mended=done)
            return
        who = f"while processes {', '.join(users)} have the old one open" if users else "while somebody may use it"
        self._add(Flaw.NO_LOCK_FILE, path, what, f"It is not made anew {who}: end those first.")

    def _mode(self, path: str, wanted: int, *, mend: bool) -> None:
        mode = stat.S_IMODE(self._system.stat(path).st_mode)
        if mode != wanted:
            done = mend and self._try(lambda: self._system.chmod(path, wanted))
            self._add(Flaw.WRONG_MODE, path, f"its mode is {mode:04o}", f"It should be {wanted:04o}.", mended=done)

    def _stray(self, path: str, *, mended: bool) -> None:
        what = "a draft of a writer that was killed, or is at it"
        self._add(Flaw.STRAY_FILE, path, what, "It disturbs nobody.", mended=mended)

    def _unlink(self, path: str) -> bool:
        self._system.unlink(path)
        return True

    @staticmethod
    def _try(work: Callable[[], object]) -> bool:
        try:
            return work() is not False
        except (OSError, StorageError):
            return False

    def _add(
        self,
        flaw: Flaw,
        where: str,
        what: str,
        remedy: str,
        *,
        start: int | None = None,
        end: int | None = None,
        mended: bool = False,
    ) -> None:
        self.findings.append(Finding(flaw, where, what, remedy, start, end, mended))
