"""`python -m majorcert` is `majorcert`."""

from majorcert.cli import app

if __name__ == "__main__":
    app(prog_name="majorcert")
