"""A log with segments and marks: ``<key>/`` with ``lock``, ``000000000000.jsonl``, … and ``read.jsonl``.

One kernel lock, on a file that is never replaced, covers all of them; readers take none.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial
from itertools import pairwise
from typing import TypeVar

from .appending import Appender
from .base import Damage, Finding, Load, Record
from .chain import LOCK, Place
from .examining import MARKS, Examination
from .lines import data_of, read_tail
from .locking import LockTimeoutError, patiently
from .logs import INLINE, PLACES, Appended, Context, FileLog
from .marks import Marks, MarksFile, Range, ranges_of
from .system import APPEND, CREATE, READ, WRITE, OpenFile

T = TypeVar("T")
_TRIES = 200
_PAUSE = 0.002


class FileMarkedLog(FileLog):
    """See :class:`~pseudoclaude.storage.base.MarkedLog`."""

    def __init__(self, context: Context, key: str) -> None:
        super().__init__(context, key, folder=True)
        self._lock: OpenFile | None = None
        self._lock_path = f"{self._path}/{LOCK}"
        self._marks = MarksFile(context.system, f"{self._path}/{MARKS}")
        self._marks_reported = False
        self._all_marked: object = None
        """A version in which no record is unmarked."""

    async def end(self) -> int:
        """See :meth:`~pseudoclaude.storage.base.Log.end`. Records that were marked and then lost stay counted."""
        return self._guard(self._end)

    async def mark(self, indices: Iterable[int]) -> None:
        """See :meth:`~pseudoclaude.storage.base.MarkedLog.mark`."""
        wanted = set(indices)
        marks = self._guard(self._read_marks)
        end = max(self._guard(self._chain.look).next, marks.bound)
        if (bad := next((index for index in sorted(wanted) if not 0 <= index < end), None)) is not None:
            raise IndexError(bad, end)
        if all(index in marks for index in wanted):
            return
        attempt = partial(self._try_mark, wanted)
        long = attempt()
        if long is None:
            long = await patiently(attempt, self._context.lock_wait, self._timed_out)
        if long:
            await self._thread(self._try_compact)

    async def unmarked(self, limit: int | None = None, *, seen: object = None) -> list[Record]:
        """See :meth:`~pseudoclaude.storage.base.MarkedLog.unmarked`."""
        if seen is not None and seen == self._all_marked:
            return []
        marks = self._guard(self._read_marks)
        place = self._guard(partial(self._unmarked_place, marks))
        if place is None or limit == 0:
            return []
        work = partial(self._unmarked, marks, place, limit)
        return await self._thread(work) if self._chain.is_far(place, INLINE) else self._guard(work)

    async def marked(self, indices: Iterable[int]) -> set[int]:
        """See :meth:`~pseudoclaude.storage.base.MarkedLog.marked`."""
        return self._marked(indices)

    async def version(self) -> tuple[object, object]:
        """See :meth:`~pseudoclaude.storage.base.MarkedLog.version`."""
        return self._guard(self._version)

    async def grown(self) -> object:
        """See :meth:`~pseudoclaude.storage.base.MarkedLog.grown`."""
        return self._guard(self._chain.seen)

    async def load(self) -> Load:
        """See :meth:`~pseudoclaude.storage.base.MarkedLog.load`."""
        return self._guard(self._load)

    async def archive(self, *, older_than: float, keep_from: int | None = None) -> int:
        """See :meth:`~pseudoclaude.storage.base.MarkedLog.archive`."""
        through = self._guard(self._read_marks).through
        if len(self._guard(self._chain.firsts)) < 2:
            return 0
        upto = through if keep_from is None else min(through, keep_from)
        return await self._thread(partial(self._archive, upto, older_than))

    async def examine(self, *, mend: bool = False) -> list[Finding]:
        """See :meth:`~pseudoclaude.storage.base.MarkedLog.examine`."""
        return await self._thread(partial(self._examine, mend=mend))

    def close(self) -> None:
        """Give up the descriptors; the next use opens them again."""
        super().close()
        self._lock = None
        self._marks.close()

    def _create(self) -> None:
        root = self._context.root
        root.check(self._key)
        changed = root.make_folder(self._path)
        self._system.open(self._lock_path, WRITE | CREATE)
        self._sync_folders([*changed, self._path])

    def _end(self) -> int:
        return max(self._chain.look().next, self._marks.read().bound)

    def _load(self) -> Load:
        marks, end = self._read_marks(), self._end()
        reach = end - marks.through
        records = reach - sum(stop - start for start, stop in marks.also)
        place = self._chain.place_of(marks.through, marks.at) if records else None
        if place is None:
            return Load(records, 0)
        return Load(records, self._chain.bytes_from(place) * records // reach)

    def _archive(self, upto: int, older_than: float) -> int:
        archived = 0
        for first, following in pairwise(self._chain.firsts()):
            path = self._chain.path_of(first)
            try:
                segment = self._system.open(path, READ)
                age = time.time() - self._system.fstat(segment).st_mtime
                if following > upto or age < older_than or read_tail(self._system, segment, first).sealed is None:
                    break  # the archive holds the beginning of the log, without a gap
                self._chain.archive.add(self._context.root, first, segment)
                if not self._locked_in_thread(partial(self._remove, path)):
                    break
            except (FileNotFoundError, BlockingIOError):
                break  # somebody else is at it
            archived += 1
        return archived

    def _remove(self, path: str) -> bool:
        # Under the lock, since whoever holds it may be about to open the segments it listed.
        self._system.unlink(path)
        if self._disk:
            self._system.sync_folder(self._path)
        return True

    def _examine(self, *, mend: bool) -> list[Finding]:
        examination = Examination(self._context.root, self._path)
        self._context.root.check(self._key)
        examination.files(mend=mend)

        def look(mend: bool = False) -> bool:
            examination.drafts_of_marks(mend=mend)
            return True

        try:
            mend = mend and bool(self._locked_in_thread(lambda: look(mend=True)))
        except FileNotFoundError:
            mend = False  # there is no lock to mend under
        if not mend:
            look()
        examination.records()
        file = MarksFile(self._system, self._marks.path)
        marks = examination.marks(file, self._marks.path)
        if mend:
            missing = [gap for gap, _ in examination.gaps]
            mend = bool(self._locked_in_thread(partial(self._mark_over, file, missing)))
        examination.lost(marks, mended=mend)
        return examination.findings

    def _mark_over(self, file: MarksFile, missing: list[Range]) -> bool:
        old = file.read()
        new = old.with_ranges(missing)
        if new != old and not file.damaged:
            file.write(new)
        return not file.damaged

    def _locked_in_thread(self, work: Callable[[], T]) -> T | None:
        """Do it under the lock, trying for a moment; None if somebody held that all the time."""
        for _ in range(_TRIES):
            if (result := self._locked(work)) is not None:
                return result
            self._system.pause(_PAUSE)
        return None

    def _version(self) -> tuple[object, object]:
        marks = self._marks.read()
        self._chain.assume(marks.at[0])
        seen = self._chain.seen()
        version = (seen, self._marks.seen)
        if (self._chain.newest, seen[1]) == marks.at and not self._marks.damaged:
            self._all_marked = version
        return version

    def _read_marks(self) -> Marks:
        marks = self._marks.read()
        if self._marks.damaged and not self._marks_reported:
            self._marks_reported = True
            self._context.report(Damage(self._key, self._marks.path, 0, 0))
        return marks

    def _marked(self, indices: Iterable[int]) -> set[int]:
        marks = self._guard(self._read_marks)
        return {index for index in indices if index in marks}

    def _unmarked_place(self, marks: Marks) -> Place | None:
        if not self._chain.has_looked:
            # Where the hint is the end of the log, the log itself need not be opened.
            self._chain.assume(marks.at[0])
            size = self._chain.seen()[1]
            if (self._chain.newest, size) == marks.at:
                return None
        if self._chain.look().next <= marks.through:
            return None
        return self._chain.place_of(marks.through, marks.at, looked=True)

    def _unmarked(self, marks: Marks, place: Place, limit: int | None) -> list[Record]:
        records: list[Record] = []
        passed = [(marks.through, place)]
        also = bool(marks.also)
        for index, line, after in self._chain.walk(place, marks.through, parse=False):
            if len(passed) < PLACES:
                passed.append((index + 1, after))
            if also and index in marks:
                continue
            records.append(Record(index, data_of(line)))
            if limit is not None and len(records) >= limit:
                break
        self._chain.passed = passed
        return records

    def _try_append(self, data: bytes, unless: tuple[int, Callable[[bytes], bool]] | None = None) -> Appended | None:
        return self._locked(lambda: self._append(self._current(), data, unless))

    def _try_mark(self, wanted: set[int]) -> bool | None:
        return self._locked(lambda: self._mark(wanted))

    def _try_compact(self) -> None:
        self._locked(self._marks.compact)

    def _locked(self, work: Callable[[], T]) -> T | None:
        """Do it under the lock, if nobody holds that; None if somebody does."""
        if not self._mutex.acquire(blocking=False):
            return None
        try:
            lock = self._lock or self._open_lock()
            while True:
                if not self._system.lock(lock):
                    return None
                try:
                    if self._system.fstat(lock).st_nlink:
                        self._context.kept.touch(self)
                        return work()
                finally:
                    self._system.unlock(lock)
                self.close()  # removed, and perhaps made anew
                lock = self._open_lock()
        except FileNotFoundError:
            self.close()
            raise
        except OSError as error:
            raise self._refused(error) from error
        finally:
            self._mutex.release()

    def _open_lock(self) -> OpenFile:
        self._context.root.check(self._key)
        self._lock = self._system.open(self._lock_path, WRITE)
        return self._lock

    def _mark(self, wanted: set[int]) -> bool:
        old = self._marks.read()
        new = old.with_ranges(ranges_of(wanted))
        # What is missing before a marked record would keep ``through`` where it is for ever.
        if gaps := [gap for gap in self._gaps if gap[1] in new]:
            new = new.with_ranges(gaps)
        if new == old:
            return False
        at = max(old.at, self._chain.place_before(new.through), self._chain.end_if(new.through))
        return self._marks.write(Marks(new.through, new.also, at))

    def _current(self) -> Appender:
        """The newest segment, ready for an append: its seal followed, the missing successor made."""
        appender, bound = self._appender, 0
        while True:
            if appender is None or not appender.look():
                firsts = self._chain.firsts()
                # Marks that reach further than the log tell of records lost to a power cut: a new one in their place
                # would count as read before anybody saw it.
                bound = self._marks.read().bound
                older = self._segment(firsts[-2], create=False) if len(firsts) > 1 else None
                appender = self._segment(firsts[-1] if firsts else bound, older)
                appender.look()
            if appender.sealed is None:
                full = appender.size >= self._context.segment_bytes or appender.synced.failed
                if bound > appender.next:
                    appender.seal(bound)
                elif full and appender.next > appender.first:
                    appender.seal(appender.next)
                else:
                    return appender
            firsts = self._chain.firsts()
            appender = self._segment(max([appender.next, *firsts]), appender)

    def _segment(self, first: int, before: Appender | None = None, *, create: bool = True) -> Appender:
        file = self._system.open(self._chain.path_of(first), APPEND | (CREATE if create else 0))
        older = before.synced if before is not None and self._disk and not before.synced.failed else None
        appender = Appender(self._system, file, first, self._path, older)
        self._appender = self._chain.appender = appender
        return appender

    def _timed_out(self) -> LockTimeoutError:
        return LockTimeoutError(self._system.holder(self._lock_path), self._lock_path, self._context.lock_wait)
