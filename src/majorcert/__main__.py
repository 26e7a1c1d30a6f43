"""`python -m majorcert` is `majorcert`."""

import os
import signal
from types import FrameType

INTERRUPTED = 130
"""As `commands.options` has it, which takes a while to import."""


def main() -> None:
    """Run the command line; Ctrl-C ends it quietly, also while everything is still being imported."""
    before = signal.getsignal(signal.SIGINT)
    # A KeyboardInterrupt in the midst of an import may come out as another error, so there is none.
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)
    try:
        from majorcert.commands.app import app

        if before is signal.default_int_handler:
            signal.signal(signal.SIGINT, before)
        app(prog_name="majorcert")
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None


def _leave(_: int, __: FrameType | None) -> None:
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()
