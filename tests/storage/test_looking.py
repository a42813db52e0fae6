"""Looks that read no more than they must: the tail of a log, what is unmarked, and the marks of a cold mailbox."""

from __future__ import annotations

from pathlib import Path

import pytest

from pseudoclaude.storage.files import FileStorage
from pseudoclaude.storage.lines import encode, read_tail
from pseudoclaude.storage.marks import Marks, MarksFile
from pseudoclaude.storage.system import READ, System

KEY = "inboxes/alice"
RECORD = b'{"id":"one","text":"%s"}'


@pytest.mark.parametrize("length", [1, 2_000, 4_060, 4_096, 9_000])
@pytest.mark.parametrize("rest", [b"", b'{"i":3,"te', b"\n"])
def test_the_last_line_is_found_however_long_it_is(tmp_path: Path, length: int, rest: bytes) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b"".join(encode(index, RECORD % (b"x" * length)) for index in range(3)) + rest)
    system = System()
    tail = read_tail(system, system.open(str(path), READ), 0)
    assert (tail.next, tail.sealed, tail.open) == (3, None, bool(rest.strip()))


@pytest.mark.parametrize("closed", [False, True])
async def test_a_torn_record_that_ends_like_a_whole_one_is_never_shown(tmp_path: Path, closed: bool) -> None:
    storage = FileStorage(tmp_path)
    log = storage.marked_log(KEY)
    await log.create()
    await log.append(RECORD % b"first")
    (segment,) = (tmp_path / KEY).glob("0*.jsonl")
    with segment.open("ab") as file:
        file.write(b'{"i":1,"id":"one","text":"said {so}' + b"\n" * closed)
    assert [record.index for record in await log.unmarked()] == [0]
    await log.append(RECORD % b"second")
    await log.append(RECORD % b"third")
    shown = await FileStorage(tmp_path).marked_log(KEY).unmarked()
    assert [(record.index, record.data) for record in shown] == [
        (index, RECORD % text) for index, text in enumerate((b"first", b"second", b"third"))
    ]


@pytest.mark.parametrize("also", [(), tuple((10 * n, 10 * n + 1) for n in range(1, 60))])
@pytest.mark.parametrize("torn", [b"", b'{"through":7,"al'])
def test_marks_of_any_length_are_read(tmp_path: Path, also: tuple[tuple[int, int], ...], torn: bytes) -> None:
    path = tmp_path / "read.jsonl"
    marks = Marks(5, also, (0, 1_234))
    path.write_bytes(Marks(3).encode() + marks.encode() + torn)
    file = MarksFile(System(), str(path))
    assert file.read() == marks
    assert not file.damaged
    assert file.seen == file.version()
