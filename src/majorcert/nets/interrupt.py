"""Ctrl-C and SIGTERM as a polite request, to be granted between two steps."""

import signal
import threading
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupt:
    """Within this context the first signal only sets `asked`; a second one breaks off at once."""

    def __init__(self) -> None:
        self.asked = False
        self._before: dict[signal.Signals, object] = {}

    def __enter__(self) -> "Interrupt":
        # Only the main thread may handle signals; elsewhere whoever runs it keeps its own ways.
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._ask) for number in SIGNALS}
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
