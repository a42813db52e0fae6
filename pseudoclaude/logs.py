"""Log lines for whoever maintains the machine: warnings and crashes, on stderr unless the program configured structlog.

structlog takes a tenth of a second to import, and most commands have nothing to log: it is loaded with the first line.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger, Processor


class Log:
    """A named logger. Values are passed by keyword and never hold a secret."""

    def __init__(self, name: str) -> None:
        self._name = name

    def warning(self, event: str, **values: Any) -> None:
        """Something is odd, and things go on."""
        self._logger().warning(event, **values)

    def error(self, event: str, **values: Any) -> None:
        """Something failed; ``exc_info`` may hold the exception."""
        self._logger().error(event, **values)

    def exception(self, event: str, **values: Any) -> None:
        """Something failed; to be called where the exception is handled."""
        self._logger().exception(event, **values)

    def _logger(self) -> FilteringBoundLogger:
        import structlog  # see above

        if structlog.is_configured():
            logger: FilteringBoundLogger = structlog.get_logger(self._name)
            return logger
        chain: list[Processor] = [
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "event"]),
        ]
        ours: FilteringBoundLogger = structlog.wrap_logger(
            structlog.PrintLogger(file=sys.stderr),
            processors=chain,
            wrapper_class=structlog.make_filtering_bound_logger("info"),
        ).bind(where=self._name)
        return ours
