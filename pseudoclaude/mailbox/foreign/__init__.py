"""Mailboxes of other programs: PseudoClaude's boxes and Claude Code's inboxes.

``scanning`` and ``document`` know JSON text and its places, ``dialect``, ``box``, ``claude`` and ``kinds`` what the
entries mean, ``snapshot`` one state of a file; they touch nothing. ``locks`` and ``files`` touch the disk.
``reading`` and ``boxes`` put both together for one mailbox, ``store`` for a team.
"""

from .store import BoxStore, ClaudeInboxStore

__all__ = ["BoxStore", "ClaudeInboxStore"]
