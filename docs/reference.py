"""Make the reference of all public names from their docstrings: `make docs`, or `python docs/reference.py FOLDER`."""

import sys
from pathlib import Path

import numpy.typing as npt
import pdoc


class ArrayLike:
    """Stands for NumPy's type of this name, which would be printed as the seven types that it is a union of."""


def main(folder: Path) -> None:
    npt.ArrayLike = ArrayLike
    import majorcert as mc

    for name in mc.LATER:  # pdoc looks into the module itself, where names that need torch or files are not yet
        setattr(mc, name, getattr(mc, name))
    pdoc.render.configure(docformat="google", footer_text=f"majorcert {mc.__version__}")
    pdoc.pdoc("majorcert", output_directory=folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
