"""``python -m pseudoclaude``."""

from .cli import main

main()
