"""What killed writers and broken disks leave behind, and what becomes of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pseudoclaude.errors import StorageError
from pseudoclaude.storage.base import Damage
from pseudoclaude.storage.files import FileStorage

OpenStorage = Callable[..., FileStorage]
KEY = "inboxes/alice"


def record(text: object) -> bytes:
    return f'{{"id":"{text}"}}'.encode()


async def filled(storage: FileStorage, count: int) -> None:
    log = storage.marked_log(KEY)
    await log.create()
    for number in range(count):
        assert await log.append(record(number)) == number


def segment(tmp_path: Path, first: int = 0) -> Path:
    return tmp_path / KEY / f"{first:012d}.jsonl"


async def test_the_files_look_as_described(tmp_path: Path, open_storage: OpenStorage) -> None:
    await filled(open_storage(), 2)
    log = open_storage().marked_log(KEY)
    await log.unmarked()
    await log.mark([0])
    assert segment(tmp_path).read_text() == '{"i":0,"id":"0"}\n{"i":1,"id":"1"}\n'
    assert (tmp_path / KEY / "read.jsonl").read_text() == '{"through":1,"also":[],"at":[0,17]}\n'
    assert {path.name for path in (tmp_path / KEY).iterdir()} == {"lock", "000000000000.jsonl", "read.jsonl"}
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in (tmp_path / KEY).iterdir())
    assert (tmp_path / KEY).stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("last", ['{"id":"2","text":"a } and é"}'.encode(), b'{"id":"{\\"i\\":2}"}'])
async def test_a_record_cut_at_any_byte_is_mended_by_the_next_writer(
    tmp_path: Path, open_storage: OpenStorage, damages: list[Damage], last: bytes
) -> None:
    await filled(open_storage(), 2)
    await open_storage().marked_log(KEY).append(last)
    whole = segment(tmp_path).read_bytes()
    start = whole.index(b'{"i":2')
    for cut in range(start, len(whole)):
        segment(tmp_path).write_bytes(whole[:cut])
        log = open_storage().marked_log(KEY)
        adopted = cut == len(whole) - 1
        assert [r.index for r in await log.read()] == [0, 1]
        assert await log.append(record("next")) == 2 + adopted
        expected = [record(0), record(1), *([last] if adopted else []), record("next")]
        for reader in (log, open_storage().marked_log(KEY)):
            assert [r.data for r in await reader.read()] == expected
        assert segment(tmp_path).read_bytes().startswith(whole[:cut])
    assert damages == []


async def test_a_log_in_one_piece_is_mended_too(tmp_path: Path, open_storage: OpenStorage) -> None:
    storage = open_storage()
    for log, name in ((storage.log("a.jsonl"), "a.jsonl"), (storage.owned_log("b.jsonl"), "b.jsonl")):
        await log.create()
        await log.append(record(0))
        with (tmp_path / name).open("ab") as file:
            file.write(b'{"i":1,"id":"to')
        assert await log.append(record(1)) == 1
        assert [(r.index, r.data) for r in await log.read()] == [(0, record(0)), (1, record(1))]
        assert (tmp_path / name).read_bytes().splitlines()[1] == b'{"i":1,"id":"to'


@pytest.mark.parametrize("cut", range(1, 12))
async def test_a_torn_seal_is_no_seal(tmp_path: Path, open_storage: OpenStorage, cut: int) -> None:
    await filled(open_storage(), 2)
    seal = b'{"sealed":2}'[:cut]
    with segment(tmp_path).open("ab") as file:
        file.write(seal)
    assert await open_storage().marked_log(KEY).append(record(2)) == 2
    assert [r.index for r in await open_storage().marked_log(KEY).read()] == [0, 1, 2]


@pytest.mark.parametrize("ending", [b"", b"\n"])
async def test_a_seal_without_successor_is_followed(tmp_path: Path, open_storage: OpenStorage, ending: bytes) -> None:
    await filled(open_storage(), 2)
    reader = open_storage().marked_log(KEY)
    with segment(tmp_path).open("ab") as file:
        file.write(b'{"sealed":2}' + ending)
    assert len(await reader.unmarked()) == 2
    version = await reader.version()
    assert await open_storage().marked_log(KEY).append(record(2)) == 2
    assert segment(tmp_path, 2).exists()
    assert await reader.version() != version
    assert [r.index for r in await reader.unmarked()] == [0, 1, 2]
    assert await reader.end() == 3


@pytest.mark.parametrize("junk", [b"\0" * 17, b"not json at all..", b'{"i":2,"id":"2"!'])
async def test_damage_is_reported_once_and_the_rest_stays_readable(
    tmp_path: Path, open_storage: OpenStorage, damages: list[Damage], junk: bytes
) -> None:
    await filled(open_storage(), 5)
    lines = segment(tmp_path).read_bytes().splitlines(keepends=True)
    lines[2] = junk[: len(lines[2]) - 1] + b"\n"
    segment(tmp_path).write_bytes(b"".join(lines))
    log = open_storage().marked_log(KEY)
    for _ in range(2):
        assert [r.index for r in await log.read()] == [0, 1, 3, 4]
        assert [r.index for r in await log.unmarked()] == [0, 1, 3, 4]
    assert damages == [Damage(KEY, str(segment(tmp_path)), 2, 3)]
    assert await log.append(record(5)) == 5


async def test_a_gap_is_marked_with_what_follows_it(tmp_path: Path, open_storage: OpenStorage) -> None:
    await filled(open_storage(), 5)
    lines = segment(tmp_path).read_bytes().splitlines(keepends=True)
    segment(tmp_path).write_bytes(b"".join([lines[0], lines[3], lines[4]]))
    log = open_storage().marked_log(KEY)
    await log.mark(r.index for r in await log.unmarked())
    assert '"through":5,"also":[]' in (tmp_path / KEY / "read.jsonl").read_text()


async def test_nothing_new_is_born_marked_after_records_were_lost(
    tmp_path: Path, open_storage: OpenStorage, damages: list[Damage]
) -> None:
    await filled(open_storage(), 4)
    log = open_storage().marked_log(KEY)
    await log.mark([0, 1, 2, 3])
    kept = segment(tmp_path).read_bytes().splitlines(keepends=True)[0]
    segment(tmp_path).write_bytes(kept)
    log = open_storage().marked_log(KEY)
    assert await log.end() == 4
    assert await log.append(record("new")) == 4
    assert segment(tmp_path, 4).exists()
    for reader in (log, open_storage().marked_log(KEY)):
        assert [r.data for r in await reader.unmarked()] == [record("new")]
        assert [r.index for r in await reader.read()] == [0, 4]
    assert {(d.start, d.end) for d in damages} == {(1, 4)}


async def test_nothing_new_is_born_marked_when_every_segment_is_lost(tmp_path: Path, open_storage: OpenStorage) -> None:
    await filled(open_storage(), 3)
    await open_storage().marked_log(KEY).mark([0, 1, 2])
    segment(tmp_path).unlink()
    log = open_storage().marked_log(KEY)
    assert await log.append(record("new")) == 3
    assert [r.index for r in await log.unmarked()] == [3]


@pytest.mark.parametrize(
    "tail", [b"", b'{"thr', b"{", b'{"through":2,"also":[]}', b'{"through":1,"also":[', b"\0\0\0", b"garbage\n"]
)
async def test_the_last_whole_line_of_the_marks_counts(tmp_path: Path, open_storage: OpenStorage, tail: bytes) -> None:
    await filled(open_storage(), 4)
    await open_storage().marked_log(KEY).mark([0])
    with (tmp_path / KEY / "read.jsonl").open("ab") as file:
        file.write(tail)
    log = open_storage().marked_log(KEY)
    assert [r.index for r in await log.unmarked()] == [1, 2, 3]
    await log.mark([2])
    assert [r.index for r in await open_storage().marked_log(KEY).unmarked()] == [1, 3]


async def test_unreadable_marks_are_reported_and_hide_nothing(
    tmp_path: Path, open_storage: OpenStorage, damages: list[Damage]
) -> None:
    await filled(open_storage(), 2)
    (tmp_path / KEY / "read.jsonl").write_bytes(b"\0" * 40 + b"\n")
    log = open_storage().marked_log(KEY)
    for _ in range(2):
        assert [r.index for r in await log.unmarked()] == [0, 1]
    assert [d.where for d in damages] == [str(tmp_path / KEY / "read.jsonl")]


@pytest.mark.parametrize("hint", ["[0,3]", "[0,9999]", "[7,0]", "[0,-5]", '"x"', "[1]"])
async def test_a_wrong_hint_misleads_nobody(tmp_path: Path, open_storage: OpenStorage, hint: str) -> None:
    await filled(open_storage(), 4)
    (tmp_path / KEY / "read.jsonl").write_text(f'{{"through":2,"also":[],"at":{hint}}}\n')
    assert [r.index for r in await open_storage().marked_log(KEY).unmarked()] == [2, 3]


async def test_a_damaged_document_is_never_taken_for_an_absent_one(tmp_path: Path, open_storage: OpenStorage) -> None:
    document = open_storage().document("team.json")
    for junk in (b"", b'{"a":', b"\xff\xfe", b"\0" * 9):
        (tmp_path / "team.json").write_bytes(junk)
        with pytest.raises(StorageError, match=r"team\.json") as caught:
            await document.read()
        assert caught.value.remedy
        with pytest.raises(StorageError):
            await document.replace({"new": 1}, expected=None)
        assert (tmp_path / "team.json").read_bytes() == junk


async def test_long_marks_are_compacted(tmp_path: Path, open_storage: OpenStorage) -> None:
    await filled(open_storage(), 1_200)
    log, other = open_storage().marked_log(KEY), open_storage().marked_log(KEY)
    for index in range(0, 1_200, 2):
        await log.mark([index])
    assert (tmp_path / KEY / "read.jsonl").stat().st_size <= (64 << 10) + 12_000
    await other.mark([1])
    for reader in (log, other, open_storage().marked_log(KEY)):
        assert [r.index for r in await reader.unmarked()] == list(range(3, 1_200, 2))


async def test_a_seal_that_leads_nowhere_is_no_seal(tmp_path: Path, open_storage: OpenStorage) -> None:
    await open_storage().marked_log(KEY).create()
    segment(tmp_path).write_bytes(b'{"sealed":0}\n')
    log = open_storage().marked_log(KEY)
    assert await log.append(record(0)) == 0
    assert [r.data for r in await log.unmarked()] == [record(0)]


async def test_a_segment_that_vanished_is_made_anew(tmp_path: Path, open_storage: OpenStorage) -> None:
    log = open_storage().marked_log(KEY)
    await log.create()
    await log.append(record(0))
    await log.mark([0])
    segment(tmp_path).unlink()
    assert await log.append(record("new")) == 1
    assert [r.index for r in await log.unmarked()] == [1]
