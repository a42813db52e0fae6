"""Uses an installed pseudoclaude as a person does: the demo on a small folder, then its mail.

Run with the command to test: ``python tests/smoke.py path/to/pseudoclaude``. Needs nothing but the command.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path


def main(command: str) -> None:
    """Fail with an assertion, or say that it works."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary, "project")
        folder.mkdir()
        (folder / "main.py").write_text("# TODO say hello\nprint('hello')\n", "utf-8")
        environment = {**os.environ, "PSEUDOCLAUDE_HOME": str(Path(temporary, "home"))}

        def run(*arguments: str) -> str:
            done = subprocess.run(
                [command, *arguments],
                cwd=folder,
                env=environment,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            assert done.returncode == 0, f"{arguments}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
            return done.stdout

        version = run("--version")
        report = run("demo", ".")
        assert "main.py:1" in report, report
        mail = run("mail", "list", "lead")
        assert "survey" in mail, mail
        sys.stdout.write(f"pseudoclaude {version.strip()} works from its wheel\n")


if __name__ == "__main__":
    main(os.path.abspath(sys.argv[1]))
