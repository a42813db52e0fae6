"""Looking at files: what Read, Glob and Grep show, and what no path can reach."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from pseudoclaude.errors import ToolError
from pseudoclaude.ids import AgentId, MessageId, TeamName
from pseudoclaude.mail import Role
from pseudoclaude.tools.base import Services, Tool, ToolContext
from pseudoclaude.tools.files import glob, grep, read
from pseudoclaude.tools.workspace import Place, locate

SECRET = "the secret"


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PSEUDOCLAUDE_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def put(workspace: Path, **files: str | bytes) -> None:
    """Write files; in a name ``__`` stands for a slash and the last ``_`` for the dot before the ending."""
    for name, content in files.items():
        write(workspace, ".".join(name.replace("__", "/").rsplit("_", 1)), content)


def write(workspace: Path, name: str, content: str | bytes) -> Path:
    path = workspace / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


async def use(made: Tool, workspace: Path, **given: Any) -> str:
    ctx = ToolContext(
        team=TeamName("survey"),
        agent_id=AgentId("alice-1"),
        agent_name="alice",
        role=Role.MEMBER,
        workspace=workspace,
        call_id=MessageId("m1"),
        services=cast(Services, None),
    )
    with anyio.fail_after(20):
        output = await made.run(ctx, given)
    assert isinstance(output, str)
    return output


async def refusal(made: Tool, workspace: Path, **given: Any) -> str:
    with pytest.raises(ToolError) as caught:
        await use(made, workspace, **given)
    return caught.value.explain()


def test_all_three_change_nothing() -> None:
    assert [(made.name, made.read_only) for made in (read, glob, grep)] == [
        ("Read", True),
        ("Glob", True),
        ("Grep", True),
    ]


# Confinement


@pytest.fixture
def fortress(workspace: Path) -> Path:
    """A workspace beside a secret, with links to it, and with the data root inside it when the test says so."""
    write(workspace.parent, "outside/secret.txt", SECRET)
    write(workspace, "inside.txt", "harmless")
    (workspace / "file-link").symlink_to("../outside/secret.txt")
    (workspace / "folder-link").symlink_to(workspace.parent / "outside")
    (workspace / "chain").symlink_to("folder-link")
    (workspace / "loop").symlink_to("loop")
    return workspace


@pytest.mark.parametrize(
    "path",
    [
        "../outside/secret.txt",
        "x/../../outside/secret.txt",
        "file-link",
        "folder-link/secret.txt",
        "chain/secret.txt",
        "/etc/passwd",
        "..",
        "/",
        "folder-link/../outside/secret.txt",
    ],
)
@pytest.mark.parametrize("made", [read, glob, grep], ids=["Read", "Glob", "Grep"])
async def test_no_path_leads_out_of_the_workspace(fortress: Path, made: Tool, path: str) -> None:
    pattern = {"pattern": "secret"} if made is grep else {}
    told = await refusal(made, fortress, path=path, **pattern)
    assert "is outside the workspace" in told
    assert SECRET not in told


async def test_an_absolute_path_outside_is_refused_and_one_inside_is_fine(fortress: Path) -> None:
    assert "is outside" in await refusal(read, fortress, path=str(fortress.parent / "outside/secret.txt"))
    assert "is outside" in await refusal(read, fortress, path=f"{fortress}-2/a.txt")
    assert await use(read, fortress, path=str(fortress / "inside.txt")) == "     1\tharmless"


async def test_a_link_that_stays_inside_is_followed_until_it_is_turned_elsewhere(fortress: Path) -> None:
    link = fortress / "turned"
    link.symlink_to("inside.txt")
    assert await use(read, fortress, path="turned") == "     1\tharmless"
    link.unlink()
    link.symlink_to("../outside/secret.txt")
    assert "is outside the workspace" in await refusal(read, fortress, path="turned")


@pytest.mark.parametrize("swapped", ["a/b/secret.txt", "a/b", "a"])
def test_a_link_put_in_place_between_the_check_and_the_opening_is_not_followed(fortress: Path, swapped: str) -> None:
    write(fortress, "a/b/secret.txt", "harmless")
    write(fortress.parent, "outside/b/secret.txt", SECRET)
    place = locate(fortress, "a/b/secret.txt")
    part = fortress / swapped
    part.rename(fortress / "moved")
    part.symlink_to(fortress.parent / "outside" / swapped.removeprefix("a").removeprefix("/"))
    with pytest.raises(OSError, match=r"symbolic links|Not a directory"):
        place.open()


def test_opening_reads_the_file_that_was_found(fortress: Path) -> None:
    with Place(fortress.resolve(), fortress.resolve() / "inside.txt").open() as file:
        assert file.read() == b"harmless"


async def test_a_workspace_that_is_itself_a_link_is_one_folder_with_its_target(fortress: Path) -> None:
    link = fortress.parent / "link"
    link.symlink_to(fortress)
    assert await use(read, link, path="inside.txt") == "     1\tharmless"
    assert await use(read, link, path=str(fortress / "inside.txt")) == "     1\tharmless"
    assert await use(read, link, path=str(link / "inside.txt")) == "     1\tharmless"
    assert await use(glob, link) == "inside.txt"


async def test_searching_does_not_follow_links(fortress: Path) -> None:
    assert await use(glob, fortress) == "inside.txt"
    assert await use(grep, fortress, pattern="secret|harmless") == "inside.txt:1:harmless"


@pytest.mark.parametrize("text", ["a\0b", "\0", "\ud800"])
async def test_characters_that_no_path_can_have_are_refused(fortress: Path, text: str) -> None:
    told = "holds a character that no path or pattern can have"
    assert told in await refusal(read, fortress, path=text)
    assert told in await refusal(glob, fortress, path=text)
    assert told in await refusal(glob, fortress, pattern=text)
    assert told in await refusal(grep, fortress, pattern="a", path=text)
    assert told in await refusal(grep, fortress, pattern=text)
    assert told in await refusal(grep, fortress, pattern="a", glob=text)


async def test_links_in_a_circle_and_endless_names_are_refused(fortress: Path) -> None:
    await refusal(read, fortress, path="loop")
    await refusal(read, fortress, path="loop/file")
    await refusal(read, fortress, path="x" * 5_000)
    await refusal(read, fortress, path="x/" * 5_000)


@pytest.mark.parametrize("name", ["data", ".data", "da [t]a*!", "deep/er/data"])
async def test_the_data_root_inside_the_workspace_is_never_shown(
    fortress: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("PSEUDOCLAUDE_HOME", str(fortress / name))
    write(fortress, f"{name}/teams/survey/team.json", SECRET)
    (fortress / "alias").symlink_to(fortress / name)
    for path in (name, f"{name}/teams/survey/team.json", "alias/teams/survey/team.json", f"./x/../{name}/nothing"):
        assert "belongs to the data of pseudoclaude" in await refusal(read, fortress, path=path)
    assert "belongs to the data" in await refusal(glob, fortress, path=name)
    assert "belongs to the data" in await refusal(grep, fortress, path=f"{name}/teams", pattern="secret")
    for pattern in ("**/*", "*.json", f"{name}/**", "**/team.json"):
        assert "team.json" not in await use(glob, fortress, pattern=pattern)
        assert await use(grep, fortress, pattern=SECRET, glob=pattern) == "(no matches)"
    assert await use(glob, fortress) == "inside.txt"


async def test_the_data_root_is_known_by_what_it_is_and_not_by_its_spelling(
    fortress: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(fortress, "real/teams/team.json", SECRET)
    (fortress / "alias").symlink_to("real")
    monkeypatch.setenv("PSEUDOCLAUDE_HOME", str(fortress / "alias"))
    assert "belongs to the data" in await refusal(read, fortress, path="real/teams/team.json")
    assert await use(glob, fortress) == "inside.txt"
    assert await use(grep, fortress, pattern=".", mode="files") == "inside.txt"


async def test_a_workspace_inside_the_data_root_shows_nothing(fortress: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PSEUDOCLAUDE_HOME", str(fortress.parent))
    assert "belongs to the data" in await refusal(read, fortress, path="inside.txt")
    assert "belongs to the data" in await refusal(glob, fortress)


# Read


async def test_lines_are_numbered(workspace: Path) -> None:
    put(workspace, a_txt="one\ntwo\n\nfour")
    assert await use(read, workspace, path="a.txt") == "     1\tone\n     2\ttwo\n     3\t\n     4\tfour"


async def test_a_part_of_a_file_says_how_to_go_on(workspace: Path) -> None:
    put(workspace, a_txt="".join(f"line {n}\n" for n in range(1, 3_201)))
    whole = (await use(read, workspace, path="a.txt")).splitlines()
    assert len(whole) == 2_001
    assert whole[-1] == "... 1,200 more lines; go on with offset=2001"
    part = await use(read, workspace, path="a.txt", offset=2_001, limit=2)
    assert part == "  2001\tline 2001\n  2002\tline 2002\n... 1,198 more lines; go on with offset=2003"
    assert (await use(read, workspace, path="a.txt", offset=3_200)) == "  3200\tline 3200"
    assert "has 3,200 lines" in await refusal(read, workspace, path="a.txt", offset=3_201)


async def test_pages_stay_below_what_a_result_may_hold_and_lose_nothing(workspace: Path) -> None:
    put(workspace, a_txt="".join(f"{n} {'x' * 990}\n" for n in range(1, 301)))
    seen, offset = [], 1
    while True:
        page = (await use(read, workspace, path="a.txt", offset=offset)).splitlines()
        assert sum(len(line) + 1 for line in page) < 100_000
        seen += [int(line.split()[0]) for line in page if not line.startswith("...")]
        if not page[-1].startswith("..."):
            break
        offset = int(page[-1].partition("offset=")[2])
    assert seen == list(range(1, 301))


async def test_very_long_lines_are_cut(workspace: Path) -> None:
    put(workspace, a_txt=f"{'a' * 2_000}\n{'b' * 2_001}\nshort\n{'c' * 1_000_000}")
    lines = (await use(read, workspace, path="a.txt")).splitlines()
    assert lines[0] == f"     1\t{'a' * 2_000}"
    assert lines[1] == f"     2\t{'b' * 2_000}... (1 more characters)"
    assert lines[2] == "     3\tshort"
    assert lines[3] == f"     4\t{'c' * 2_000}... (998,000 more characters)"


@pytest.mark.parametrize("content", [b"", b"\xef\xbb\xbf"])
async def test_an_empty_file_says_so(workspace: Path, content: bytes) -> None:
    put(workspace, a_txt=content)
    assert await use(read, workspace, path="a.txt") == "(empty file)"


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        (b"\xef\xbb\xbfone\r\ntwo\r\n", "     1\tone\n     2\ttwo"),
        ("größe\n日本".encode("utf-16"), "     1\tgröße\n     2\t日本"),
        (b"caf\xe9\n", "     1\tcaf\ufffd"),
        ("a\u2028b\x0cc\n".encode(), "     1\ta\u2028b\x0cc"),
    ],
    ids=["utf-8 with mark and crlf", "utf-16", "latin-1", "other separators"],
)
async def test_text_is_decoded_and_what_cannot_be_is_replaced(workspace: Path, content: bytes, shown: str) -> None:
    put(workspace, a_txt=content)
    assert await use(read, workspace, path="a.txt") == shown


async def test_a_binary_file_is_refused_with_its_size(workspace: Path) -> None:
    put(workspace, a_bin=b"\x89PNG\0" + b"x" * 12_340)
    assert await refusal(read, workspace, path="a.bin") == "'a.bin' is a binary file of 12,345 bytes"


async def test_a_folder_is_refused_with_a_hint(workspace: Path) -> None:
    put(workspace, src__a_py="")
    assert await refusal(read, workspace, path="src") == "'src' is a folder. List what is in it with Glob."
    assert await refusal(read, workspace, path="") == "'' is a folder. List what is in it with Glob."


async def test_what_is_missing_is_answered_with_names_like_it(workspace: Path) -> None:
    put(workspace, src__reader_py="", src__other_py="", readme_md="")
    told = await refusal(read, workspace, path="src/readr.py")
    assert told.startswith("there is no 'src/readr.py'. Near it: 'src/reader.py'")
    assert "'src'" in await refusal(read, workspace, path="scr/reader.py")
    assert "'readme.md'" in await refusal(read, workspace, path="README.MD")
    assert await refusal(read, workspace, path="zzz") == "there is no 'zzz'"
    assert "'src'" in await refusal(glob, workspace, path="sr")


async def test_pipes_sockets_and_devices_are_refused_at_once(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(workspace / "pipe")
    monkeypatch.chdir(workspace)  # the path of a socket must be short
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
        for name in ("pipe", "socket"):
            assert await refusal(read, workspace, path=name) == f"{name!r} is not a regular file"
            assert await use(grep, workspace, path=name, pattern="a") == "(no matches)"
    assert await refusal(read, Path("/dev"), path="null") == "'null' is not a regular file"
    assert await use(grep, workspace, pattern="a") == "(no matches)"


def test_a_pipe_put_in_place_of_a_file_is_not_waited_for(workspace: Path) -> None:
    put(workspace, a_txt="")
    place = locate(workspace, "a.txt")
    place.path.unlink()
    os.mkfifo(place.path)
    place.open().close()


async def test_a_very_large_file_is_read_from_its_start_without_counting(workspace: Path) -> None:
    path = write(workspace, "a.txt", b"x" * 20_000)
    os.truncate(path, 60_000_000)
    assert "... (" in await use(read, workspace, path="a.txt", limit=1)
    with path.open("r+b") as file:
        file.write(b"one\ntwo\n")
    assert await use(read, workspace, path="a.txt", limit=1) == "     1\tone\n... more lines; go on with offset=2"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
async def test_a_file_that_may_not_be_read_is_an_error(workspace: Path) -> None:
    write(workspace, "a.txt", "a").chmod(0)
    assert "cannot be read: Permission denied" in await refusal(read, workspace, path="a.txt")


@pytest.mark.parametrize("given", [{"offset": 0}, {"offset": -1}, {"limit": 0}])
async def test_counting_starts_at_one(workspace: Path, given: dict[str, int]) -> None:
    assert "the arguments of Read do not fit" in await refusal(read, workspace, path="a", **given)


# Glob


@pytest.fixture
def tree(workspace: Path) -> Path:
    """Files that git takes and files that it ignores, in a folder that is no repository."""
    put(workspace, a_py="x\n", readme_md="", src__b_py="yy\n", src__deep__c_py="", src__deep__d_txt="")
    put(workspace, build__out_py="x\n", secret_py="x\n", src__deep__e_tmp="x\n", src__keep_tmp="x\n")
    write(workspace, ".gitignore", "build/\n/secret.py\n")
    write(workspace, "src/deep/.gitignore", "*.tmp\n")
    write(workspace, ".git/HEAD.py", "x\n")
    write(workspace, ".hidden/f.py", "x\n")
    return workspace


async def test_files_are_listed_sorted_with_hidden_ones_and_without_ignored_ones(tree: Path) -> None:
    assert (await use(glob, tree)).splitlines() == [
        ".gitignore",
        ".hidden/f.py",
        "a.py",
        "readme.md",
        "src/b.py",
        "src/deep/.gitignore",
        "src/deep/c.py",
        "src/deep/d.txt",
        "src/keep.tmp",
    ]


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"pattern": "*.py"}, [".hidden/f.py", "a.py", "src/b.py", "src/deep/c.py"]),
        ({"pattern": "**/*.py"}, [".hidden/f.py", "a.py", "src/b.py", "src/deep/c.py"]),
        ({"pattern": "/*.py"}, ["a.py"]),
        ({"pattern": "src/*.py"}, ["src/b.py"]),
        ({"pattern": "src/**/*.{py,txt}"}, ["src/b.py", "src/deep/c.py", "src/deep/d.txt"]),
        ({"pattern": "src/deep/"}, ["src/deep/.gitignore", "src/deep/c.py", "src/deep/d.txt"]),
        ({"pattern": "*.py", "path": "src"}, ["src/b.py", "src/deep/c.py"]),
        ({"pattern": "deep/*.py", "path": "src"}, ["src/deep/c.py"]),
        ({"pattern": "*.tmp"}, ["src/keep.tmp"]),
        ({"pattern": "secret.py"}, ["(no files)"]),
        ({"pattern": "build/**"}, ["(no files)"]),
        ({"pattern": ".git/**"}, ["(no files)"]),
        ({"pattern": "--files"}, ["(no files)"]),
        ({"pattern": "!*.py", "path": "src"}, ["src/deep/.gitignore", "src/deep/d.txt", "src/keep.tmp"]),
    ],
    ids=str,
)
async def test_a_pattern_chooses_files_as_in_a_gitignore(tree: Path, given: dict[str, str], found: list[str]) -> None:
    assert (await use(glob, tree, **given)).splitlines() == found


async def test_a_pattern_may_be_absolute(tree: Path) -> None:
    assert await use(glob, tree, pattern=f"{tree}/src/*.py") == "src/b.py"


async def test_sizes_stand_before_the_paths(tree: Path) -> None:
    assert await use(glob, tree, pattern="/{a,src/b}.py", sizes=True) == "2\ta.py\n3\tsrc/b.py"


async def test_a_part_of_a_list_says_how_to_go_on(workspace: Path) -> None:
    for number in range(50):
        write(workspace, f"{number:02}.txt", "")
    assert (await use(glob, workspace, limit=2)) == "00.txt\n01.txt\n... 48 more; go on with offset=2"
    assert (await use(glob, workspace, limit=2, offset=48)) == "48.txt\n49.txt"
    assert "there are 50 lines" in await refusal(glob, workspace, offset=50)


async def test_a_file_is_no_folder_to_list(tree: Path) -> None:
    assert await refusal(glob, tree, path="a.py") == "'a.py' is a file. Show it with Read."


async def test_a_broken_glob_is_explained(tree: Path) -> None:
    assert "error parsing glob" in await refusal(glob, tree, pattern="[")
    assert "error parsing glob" in await refusal(grep, tree, pattern="x", glob="{")


async def test_strange_file_names_are_shown_on_one_line_in_valid_unicode(workspace: Path) -> None:
    for name in (b"caf\xe9.txt", b"two\nlines.txt", b"-e.txt", "größe.txt".encode()):
        write(workspace, os.fsdecode(name), "needle\n")
    lines = (await use(glob, workspace, sizes=True)).splitlines()
    assert lines == ["7\t-e.txt", "7\tcaf\ufffd.txt", "7\tgröße.txt", "7\ttwo\ufffdlines.txt"]
    assert len((await use(grep, workspace, pattern="needle", mode="files")).splitlines()) == 4
    assert (await use(grep, workspace, pattern="needle")).splitlines() == [
        "-e.txt:1:needle",
        "caf\ufffd.txt:1:needle",
        "größe.txt:1:needle",
        "two\ufffdlines.txt:1:needle",
    ]


# Grep


async def test_matches_are_shown_with_path_line_and_text(tree: Path) -> None:
    assert await use(grep, tree, pattern="^x|yy") == ".hidden/f.py:1:x\na.py:1:x\nsrc/b.py:1:yy\nsrc/keep.tmp:1:x"


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"mode": "files"}, [".hidden/f.py", "a.py", "src/keep.tmp"]),
        ({"mode": "count"}, [".hidden/f.py:1", "a.py:1", "src/keep.tmp:1"]),
        ({"glob": "*.py"}, [".hidden/f.py:1:x", "a.py:1:x"]),
        ({"glob": "*.tmp", "mode": "files"}, ["src/keep.tmp"]),
        ({"path": "src"}, ["src/keep.tmp:1:x"]),
        ({"path": "src/keep.tmp"}, ["src/keep.tmp:1:x"]),
        ({"path": "secret.py"}, ["secret.py:1:x"]),
        ({"path": "src/b.py"}, ["(no matches)"]),
        ({"limit": 1}, [".hidden/f.py:1:x", "... 2 more; go on with offset=1"]),
        ({"limit": 1, "offset": 2}, ["src/keep.tmp:1:x"]),
        ({"pattern": "X"}, ["(no matches)"]),
        ({"pattern": "Y+", "ignore_case": True, "path": "src"}, ["src/b.py:1:yy"]),
        ({"pattern": "-x"}, ["(no matches)"]),
    ],
    ids=str,
)
async def test_options_narrow_what_is_shown(tree: Path, given: dict[str, Any], found: list[str]) -> None:
    assert (await use(grep, tree, **{"pattern": "x", **given})).splitlines() == found


async def test_context_is_shown_around_matches_with_gaps_marked(workspace: Path) -> None:
    put(workspace, a_txt="1\n2 x\n3\n4\n5\n6 x\r\n7-8:9\n")
    lines = (await use(grep, workspace, pattern="x$", context=1)).splitlines()
    assert lines == ["a.txt-1-1", "a.txt:2:2 x", "a.txt-3-3", "--", "a.txt-5-5", "a.txt:6:6 x", "a.txt-7-7-8:9"]


async def test_long_lines_are_cut(workspace: Path) -> None:
    put(workspace, a_txt=f"x{'a' * 499}\nx{'日' * 500}\nx{'b' * 5_000_000}\n")
    assert (await use(grep, workspace, pattern="x")).splitlines() == [
        f"a.txt:1:x{'a' * 499}",
        f"a.txt:2:x{'日' * 499}...",
        f"a.txt:3:x{'b' * 499}...",
    ]


@pytest.mark.parametrize("mode", ["content", "files", "count"])
@pytest.mark.parametrize("path", [".", "a.bin"])
@pytest.mark.parametrize("lines", [0, 100_000])
async def test_binary_files_are_left_out_even_when_named_and_wherever_it_shows(
    workspace: Path, mode: str, path: str, lines: int
) -> None:
    put(workspace, a_bin=b"needle\n" + b"line\n" * lines + b"\0needle\n")
    assert await use(grep, workspace, pattern="needle", mode=mode, path=path) == "(no matches)"


async def test_text_that_is_not_utf_8_is_searched_and_shown(workspace: Path) -> None:
    put(workspace, a_txt=b"caf\xe9 needle\n", b_txt="größe needle\n".encode("utf-16"))
    assert await use(grep, workspace, pattern="needle") == "a.txt:1:caf\ufffd needle\nb.txt:1:größe needle"


async def test_a_broken_expression_is_explained_in_the_words_of_ripgrep(workspace: Path) -> None:
    assert "unclosed group" in await refusal(grep, workspace, pattern="(")


async def test_settings_of_the_person_do_not_change_a_search(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(write(tmp_path, "ripgreprc", "--invert-match\n--no-ignore\n")))
    assert await use(grep, tree, pattern="yy") == "src/b.py:1:yy"


async def test_many_files_give_one_order_page_by_page(workspace: Path) -> None:
    for number in range(300):
        write(workspace, f"{number % 7}/{number:03}.txt", "needle\n" * 3)
    whole = (await use(grep, workspace, pattern="needle")).splitlines()
    assert len(whole) == 900
    assert whole == sorted(whole)
    pages: list[str] = []
    for offset in range(0, 900, 300):
        pages += (await use(grep, workspace, pattern="needle", limit=300, offset=offset)).splitlines()[:300]
    assert pages == whole


async def test_more_matches_than_can_be_held_stop_the_search_with_a_note(workspace: Path) -> None:
    put(workspace, a_txt="x\n" * 400_000)
    lines = (await use(grep, workspace, pattern="x", limit=1)).splitlines()
    assert lines[0] == "a.txt:1:x"
    assert lines[-1].startswith("... stopped after 2")
    assert lines[-1].endswith("make the search narrower")


async def test_searches_can_run_at_the_same_time_and_be_cancelled(tree: Path) -> None:
    answers: list[str] = []

    async def search() -> None:
        answers.append(await use(grep, tree, pattern="yy"))

    async with anyio.create_task_group() as tasks:
        for _ in range(10):
            tasks.start_soon(search)
    assert answers == ["src/b.py:1:yy"] * 10

    with anyio.CancelScope() as scope:
        scope.cancel()
        await use(glob, tree)
    assert scope.cancelled_caught


async def test_a_folder_that_is_gone_is_an_error(workspace: Path) -> None:
    gone = workspace / "gone"
    await refusal(glob, gone)
    await refusal(grep, gone, pattern="x")
    await refusal(read, gone, path="a.txt")
