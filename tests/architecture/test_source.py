"""Rules about the source itself, over every module of the package."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from string import Template

import pytest

import pseudoclaude

PACKAGE = Path(pseudoclaude.__file__).parent
PROMPTS = PACKAGE.parent / "prompts"
MODULES = sorted(PACKAGE.rglob("*.py"))
LONGEST_MODULE = 400

MAY_WRITE = {
    "storage/system.py": "the one place that opens for writing, locks, syncs and renames",
    "storage/documents.py": "filelock, for what is off the fast path",
}
"""Modules that may change the file system, and why."""

_WRITING_CALLS = {
    *(f"os.{name}" for name in ("open", "replace", "rename", "renames", "link", "symlink", "mkdir", "makedirs")),
    *(f"os.{name}" for name in ("unlink", "remove", "rmdir", "removedirs", "truncate", "ftruncate", "fsync")),
    *(f"os.{name}" for name in ("fdatasync", "write", "pwrite", "chmod", "chown", "utime", "mkfifo")),
    *(f"shutil.{name}" for name in ("copy", "copy2", "copyfile", "copytree", "move", "rmtree")),
}
_WRITING_METHODS = {"write_text", "write_bytes", "touch", "rename", "unlink", "rmdir", "mkdir", "symlink_to"}
_WRITING_METHODS |= {"hardlink_to", "chmod"}
_LOCK_MODULES = {"fcntl", "filelock", "msvcrt", "tempfile"}
_NOT_FILES = re.compile(r"(^|[._])(system|kept)\.\w+$")
"""The system module's own object, through which everybody writes; a cache of descriptors."""

_WRITING_FLAG = re.compile(r"O_(WRONLY|RDWR|CREAT|TRUNC|APPEND|TMPFILE)")
_MODE = re.compile(r"[rwaxbt+]{1,4}")

each_module = pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))


def tree_of(module: Path) -> ast.Module:
    return ast.parse(module.read_text("utf-8"), str(module))


def dotted(node: ast.expr) -> str:
    return ast.unparse(node) if isinstance(node, ast.Name | ast.Attribute) else ""


def opens_for_writing(call: ast.Call, position: int) -> bool:
    """Whether the mode, an argument at this position, lets a file be changed; one that is computed counts as such."""
    given = [word.value for word in call.keywords if word.arg == "mode"] or call.args[position : position + 1]
    if not given:
        return False
    if not isinstance(given[0], ast.Constant):
        return position == 1
    mode = str(given[0].value)
    return bool(_MODE.fullmatch(mode) and set(mode) & set("wax+"))


def writes(tree: ast.Module) -> Iterator[str]:
    """What in a module would change a file or take a lock."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (f"line {node.lineno}: {a.name}" for a in node.names if a.name in _LOCK_MODULES)
        if isinstance(node, ast.ImportFrom) and node.module in {*_LOCK_MODULES, "os"}:
            yield f"line {node.lineno}: from {node.module}"
        if not isinstance(node, ast.Call):
            continue
        name = dotted(node.func)
        method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if _NOT_FILES.search(name):
            continue
        reads = name == "os.open" and ("os.devnull" in ast.unparse(node) or not _WRITING_FLAG.search(ast.unparse(node)))
        if (name in _WRITING_CALLS and not reads) or method in _WRITING_METHODS:
            yield f"line {node.lineno}: {name or method}"
        elif name in ("open", "io.open", "os.fdopen"):
            if opens_for_writing(node, 1):
                yield f"line {node.lineno}: {name}"
        elif method == "open" and name != "os.open" and opens_for_writing(node, 0):
            yield f"line {node.lineno}: {name or method}"


@each_module
def test_only_the_system_module_opens_for_writing_locks_syncs_and_renames(module: Path) -> None:
    if module.relative_to(PACKAGE).as_posix() not in MAY_WRITE:
        assert list(writes(tree_of(module))) == []


def test_the_modules_that_may_write_do() -> None:
    for module in MAY_WRITE:
        assert list(writes(tree_of(PACKAGE / module)))


@pytest.mark.parametrize(
    "code",
    [
        "open('x', 'w')",
        "open('x', mode='ab')",
        "open('x', mode)",
        "Path('x').open('r+')",
        "Path('x').write_text('y')",
        "path.rename('y')",
        "import os\nos.replace('a', 'b')",
        "from os import rename",
        "import fcntl",
        "from filelock import FileLock",
        "import os\nos.fsync(3)",
        "import os\nos.open('x', os.O_RDONLY | os.O_CREAT)",
    ],
)
def test_the_rule_about_writing_sees_every_way_to_write(code: str) -> None:
    assert list(writes(ast.parse(code)))


@pytest.mark.parametrize(
    "code",
    [
        "open('x')",
        "open('x', 'rb')",
        "Path('x').open()",
        "a.read_text()",
        "store.open(x)",
        "storage.open('inboxes')",
        "self._system.open(x, os.O_RDWR)",
        "import os\nos.open('x', os.O_RDONLY)",
    ],
)
def test_the_rule_about_writing_lets_reading_pass(code: str) -> None:
    assert list(writes(ast.parse(code))) == []


@each_module
def test_a_module_is_short_enough_to_be_read(module: Path) -> None:
    assert len(module.read_text("utf-8").splitlines()) <= LONGEST_MODULE


@each_module
def test_everything_public_says_what_it_is(module: Path) -> None:
    tree = tree_of(module)
    private = module.stem.startswith("_") and module.stem != "__init__"
    missing = [] if ast.get_docstring(tree) or not tree.body or private else ["the module"]
    missing += list(undocumented(tree.body, ""))
    assert missing == []


def undocumented(body: list[ast.stmt], where: str) -> Iterator[str]:
    """Public classes, functions and methods without a docstring. A test says what it does by its name."""
    for node in body:
        if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) or node.name.startswith("_"):
            continue
        marks = {dotted(mark.func if isinstance(mark, ast.Call) else mark) for mark in node.decorator_list}
        if (
            node.name.startswith("test_")
            or marks & {"overload", "override"}
            or any(mark.endswith((".setter", ".deleter")) for mark in marks)
        ):
            continue
        if not ast.get_docstring(node):
            yield f"line {node.lineno}: {where}{node.name}"
        if isinstance(node, ast.ClassDef):
            yield from undocumented(node.body, f"{node.name}.")


@each_module
def test_no_fault_is_swallowed_without_a_word(module: Path) -> None:
    silent = [
        f"line {node.lineno}"
        for node in ast.walk(tree_of(module))
        if isinstance(node, ast.ExceptHandler)
        and all(isinstance(statement, ast.Pass) or _is_ellipsis(statement) for statement in node.body)
    ]
    bare = [f"line {n.lineno}" for n in ast.walk(tree_of(module)) if isinstance(n, ast.ExceptHandler) and not n.type]
    assert silent + bare == []


def _is_ellipsis(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and getattr(statement.value, "value", None) is ...


@each_module
def test_comments_promise_no_later_work_and_tell_no_history(module: Path) -> None:
    tokens = tokenize.generate_tokens(io.StringIO(module.read_text("utf-8")).readline)
    comments = [f"line {token.start[0]}: {token.string}" for token in tokens if token.type == tokenize.COMMENT]
    words = re.compile(r"\b(TODO|FIXME|XXX|HACK|B\d\d)\b|(?<![\w&])#\d{2,}\b")
    assert [comment for comment in comments if words.search(comment[comment.index("#") + 1 :])] == []


# -- prompts


def rendered() -> Iterator[tuple[str, set[str], str]]:
    """Every call of ``prompts.render``: the prompts it may name, the placeholders it fills, where it is."""
    for module in MODULES:
        for node in ast.walk(tree_of(module)):
            if isinstance(node, ast.Call) and dotted(node.func) == "prompts.render":
                names = [c.value for c in ast.walk(node.args[0]) if isinstance(c, ast.Constant)]
                filled = {word.arg for word in node.keywords if word.arg}
                for name in names:
                    yield str(name), filled, f"{module.relative_to(PACKAGE)}, line {node.lineno}"


def prompt_names() -> list[str]:
    return sorted(path.relative_to(PROMPTS).with_suffix("").as_posix() for path in PROMPTS.rglob("*.md"))


@pytest.mark.parametrize("name", prompt_names())
def test_every_prompt_is_used_and_its_placeholders_are_filled(name: str) -> None:
    template = Template((PROMPTS / f"{name}.md").read_text("utf-8"))
    assert template.is_valid()
    uses = [(filled, where) for used, filled, where in rendered() if used == name]
    assert uses, "nobody uses this prompt"
    for filled, where in uses:
        assert set(template.get_identifiers()) <= filled, where


def test_every_prompt_that_is_used_exists() -> None:
    assert {name for name, _, _ in rendered()} <= set(prompt_names())
