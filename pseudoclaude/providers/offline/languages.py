"""What the name of a file tells: its language, and whether it is a test and of what. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Set
from functools import cache
from pathlib import PurePosixPath

_TABLE = """
Ada: adb ads
Assembly: asm s
C: c h
C#: cs
C++: cc cpp cxx hh hpp hxx
CMake: cmake
CSS: css less sass scss
CSV: csv tsv
Clojure: clj cljc cljs
Dart: dart
Elixir: ex exs
Elm: elm
Erlang: erl hrl
F#: fs fsx
Fortran: f f90 f95
GraphQL: graphql
Go: go
Groovy: gradle groovy
HTML: htm html
Haskell: hs
INI: cfg conf ini
JSON: json jsonc jsonl
Java: java
JavaScript: cjs js jsx mjs
Julia: jl
Kotlin: kt kts
Lua: lua
Markdown: markdown md mdx
Nix: nix
OCaml: ml mli
Objective-C: m mm
PHP: php
Perl: pl pm
PowerShell: ps1 psm1
Protocol Buffers: proto
Python: py pyi
R: r
Ruby: rake rb
Rust: rs
SQL: sql
SVG: svg
Scala: sbt scala
Shell: bash fish sh zsh
Svelte: svelte
Swift: swift
TOML: toml
Terraform: tf
TypeScript: cts mts ts tsx
Vue: vue
XML: xml xsd xsl
YAML: yaml yml
Zig: zig
plain text: rst text txt
"""
LANGUAGES = {
    f".{extension}": language
    for language, extensions in (line.split(": ") for line in _TABLE.strip().splitlines())
    for extension in extensions.split()
}
"""The language of each known extension, in lower case and with its dot."""

MODULES = frozenset(
    [
        ".bash",
        ".c",
        ".cc",
        ".cjs",
        ".clj",
        ".cpp",
        ".cs",
        ".cxx",
        ".dart",
        ".erl",
        ".ex",
        ".exs",
        ".fs",
        ".go",
        ".groovy",
        ".h",
        ".hh",
        ".hpp",
        ".hs",
        ".java",
        ".jl",
        ".js",
        ".jsx",
        ".kt",
        ".lua",
        ".m",
        ".mjs",
        ".mm",
        ".php",
        ".pl",
        ".pm",
        ".py",
        ".rb",
        ".rs",
        ".scala",
        ".sh",
        ".swift",
        ".ts",
        ".tsx",
        ".vue",
        ".zig",
    ]
)
"""Extensions of source files that one expects to have tests."""

TEST_FOLDERS = frozenset({"test", "tests", "__tests__", "spec"})
"""Whatever lies below a folder of such a name is a test file."""

TEST_GLOBS = ("**/*[Tt]est*", "**/*.spec*")
"""Globs that together find every file that :func:`test_names` can name."""

_STARTS, _ENDS = ("test_",), ("_test", ".test", ".spec", "Test", "Tests")

TEST_RULE = (
    "A module is a text file with an extension of a programming language that is not empty, not __init__.py and not a "
    "test itself. It counts as tested when any file of the whole folder has, without its last extension, the name "
    "test_STEM, STEM_test, STEM.test, STEM.spec, STEMTest, STEMTests (STEM as it is or with a capital first letter) "
    "or test_FOLDER_STEM, where STEM is the module's name without its last extension and FOLDER the folder it lies in. "
    "A test is a file whose name begins or ends like that, or that lies below a folder named test, tests, __tests__ "
    "or spec."
)
"""The rule in words, for people."""


def extension(path: str) -> str:
    """The last extension in lower case, with its dot; empty for ``Makefile`` and ``.gitignore``."""
    return PurePosixPath(path).suffix.lower()


def is_test(path: str) -> bool:
    """Whether a file is a test: by how its stem begins or ends, or by a folder above it."""
    *folders, _ = path.split("/")
    stem = _stem(path)
    return stem.startswith(_STARTS) or stem.endswith(_ENDS) or not TEST_FOLDERS.isdisjoint(folders)


def is_module(path: str, size: int) -> bool:
    """Whether a text file of this size is a source file that one expects to have a test."""
    empty = size == 0 or path.rpartition("/")[2] == "__init__.py"
    return extension(path) in MODULES and not empty and not is_test(path)


def test_names(path: str) -> Set[str]:
    """The stems that a test of this module may have.

    With the module's stem ``S`` and its folder ``F``: ``test_S``, ``S_test``, ``S.test``, ``S.spec``, ``STest``,
    ``STests``, the last two also with a capital first letter, and ``test_F_S``. The extension and the folder of the
    test do not matter.
    """
    stem, folder = _stem(path), path.rpartition("/")[0].rpartition("/")[2]
    capital = stem[:1].upper() + stem[1:]
    names = {f"test_{stem}", f"{stem}_test", f"{stem}.test", f"{stem}.spec"}
    names |= {f"{name}{end}" for name in (stem, capital) for end in ("Test", "Tests")}
    return names | {f"test_{folder}_{stem}"} if folder else names


def untested(modules: Iterable[str], files: Iterable[str]) -> list[str]:
    """Those of the modules of which no file of the folder is a test by its name (see :func:`test_names`)."""
    stems = {_stem(path) for path in files}
    return [path for path in modules if stems.isdisjoint(test_names(path))]


@cache
def language(extension: str) -> str:
    """What files with this extension are written in; ``other`` when nobody knows."""
    return LANGUAGES.get(extension, "other")


def _stem(path: str) -> str:
    return PurePosixPath(path).stem
